// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"slices"

	"assay"
	"assay/internal/store/connpool"
)

// SaveFix implements assay.CodebaseStore.
func (q *Queries) SaveFix(ctx context.Context, holder, runID string, ids []string, f assay.CodeFix) error {
	numbers := make([]int64, 0, len(ids))
	for _, id := range ids {
		if n, ok := findingNumber(id); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	if err := checkSizes("fix", assay.MaxCodeTextBytes, f.FixStatus, f.FixNote, f.PullStatus); err != nil {
		return err
	}
	return q.engine.Update(ctx, connpool.OwnWork, "save a fix", func(tx Tx) error {
		h, err := q.holdRun(ctx, tx, holder, runID)
		if err != nil {
			return err
		}
		_, err = exec(ctx, tx, `UPDATE code_findings SET fix_status = $1, fix_note = $2, pull_request = $3, pull_status = $4 WHERE repo = $5 AND `+q.sql.In(`id`, `$6`),
			Text(f.FixStatus), Text(f.FixNote), f.PullRequest, Text(f.PullStatus), h.repo, numbers)
		return err
	})
}

// SavePatch implements assay.CodebaseStore.
func (q *Queries) SavePatch(ctx context.Context, holder, runID string, patch []byte) error {
	if len(patch) > assay.MaxPatchBytes {
		return assay.Errorf(assay.CodeInvalid, "the patch has more than %d bytes", assay.MaxPatchBytes)
	}
	return q.engine.Update(ctx, connpool.OwnWork, "save a patch", func(tx Tx) error {
		h, err := q.holdRun(ctx, tx, holder, runID)
		if err != nil {
			return err
		}
		_, err = exec(ctx, tx, `INSERT INTO run_patches (run, patch) VALUES ($1, $2) ON CONFLICT (run) DO UPDATE SET patch = excluded.patch`, h.run, patch)
		return err
	})
}

func errNoPatch() error { return assay.Errorf(assay.CodeNotFound, "the run has changed nothing") }

// Patch implements assay.CodebaseStore.
func (q *Queries) Patch(ctx context.Context, organizationID, runID string) ([]byte, error) {
	return one(ctx, q, connpool.Pages, "find a patch", errNoPatch, value[[]byte],
		`SELECT p.patch FROM run_patches p JOIN runs r ON r.run = p.run WHERE r.id = $1 AND r.org = (SELECT org FROM organizations WHERE id = $2)`, ID(runID), ID(organizationID))
}
