// SPDX-License-Identifier: Apache-2.0

package query

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"assay"
	"assay/internal/store/connpool"
)

// reviewed is a finding of a review in its stored form.
type reviewed struct {
	id, severity int64
	digest       []byte
	insights     []byte   // JSON; nil: none
	ids          []string // insights that find it
	*assay.CodeFinding
}

// storedFinding is the part of a stored finding that a review reads.
type storedFinding struct {
	state, resolvedAt int64
	digest            []byte
	insights          bool
}

// reviewedFindings checks and sorts the findings of a review, the worst first. It keeps
// those within the limits, and the first with an id.
func reviewedFindings(findings []*assay.CodeFinding) ([]reviewed, error) {
	list := make([]reviewed, 0, len(findings))
	for _, f := range findings {
		id, ok := findingNumber(f.ID)
		if !ok {
			return nil, assay.Errorf(assay.CodeInvalid, "the id of a finding is not %q and %d hexadecimal digits", findingPrefix, findingDigits)
		}
		r := reviewed{id: id, severity: severityNumber(f.Severity), CodeFinding: f}
		if r.severity == 0 {
			return nil, assay.Errorf(assay.CodeInvalid, "a finding has an unknown severity")
		}
		if err := checkSizes("finding", assay.MaxCodeTextBytes, f.Check, f.Category, f.Service, f.FixStatus, f.FixNote, f.PullStatus); err != nil {
			return nil, err
		}
		if len(f.Body) == 0 {
			return nil, assay.Errorf(assay.CodeInvalid, "a finding has no body")
		}
		if err := checkJSON("body of a finding", assay.MaxFindingBytes, f.Body); err != nil {
			return nil, err
		}
		for _, id := range f.InsightIDs[:min(len(f.InsightIDs), assay.MaxFindingInsights)] {
			u, ok := ID(id).UUID()
			if !ok {
				return nil, assay.Errorf(assay.CodeInvalid, "the id of a finding's insight is not a UUID")
			}
			if !slices.Contains(r.ids, u.String()) {
				r.ids = append(r.ids, u.String())
			}
		}
		if len(r.ids) > 0 {
			var err error
			if r.insights, err = json.Marshal(r.ids); err != nil {
				return nil, err
			}
		}
		r.digest = r.sum()
		list = append(list, r)
	}
	slices.SortStableFunc(list, func(a, b reviewed) int { return cmp.Or(cmp.Compare(a.severity, b.severity), cmp.Compare(a.id, b.id)) })
	seen := make(map[int64]bool, len(list))
	list = slices.DeleteFunc(list, func(r reviewed) bool {
		again := seen[r.id]
		seen[r.id] = true
		return again
	})
	size, insights := 0, assay.MaxReviewInsights
	for i := range list {
		r := &list[i]
		if size += len(r.Body); i == assay.MaxFindings || size > assay.MaxReviewBytes {
			return list[:i], nil
		}
		r.ids = r.ids[:min(len(r.ids), insights)]
		insights -= len(r.ids)
	}
	return list, nil
}

// sum returns the digest of the fields that a review sets.
func (r *reviewed) sum() []byte {
	h := sha256.New()
	for _, field := range [][]byte{[]byte(r.Check), []byte(r.Severity), []byte(r.Category), []byte(r.Service), []byte(r.FixStatus), []byte(r.FixNote), r.insights, r.Body} {
		h.Write(binary.AppendUvarint(nil, uint64(len(field))))
		h.Write(field)
	}
	return h.Sum(nil)[:16]
}

// findingRows is the number of findings that one transaction writes.
const findingRows = 200

// undone is the condition that a stored finding comes back after its fix was merged or refuted.
const undone = `(code_findings.fix_status = 'refuted' OR code_findings.state & 1 = 1 AND code_findings.fix_status IN ('merged', 'confirmed'))`

// saveFinding adds or replaces a finding. A replaced one is active again, and keeps its
// creation time and its dismissal, and, unless it is undone, its fix and its pull request.
const saveFinding = `INSERT INTO code_findings (repo, id, org, severity, state, digest, created_at, resolved_at, category, check_name, service,
		fix_status, fix_note, pull_request, pull_status, insights, body)
	VALUES ($1, $2, $3, $4, 0, $5, $6, 0, $7, $8, $9, $10, $11, $12, $13, $14, $15)
	ON CONFLICT (repo, id) DO UPDATE SET severity = excluded.severity, state = code_findings.state & 2, digest = excluded.digest, resolved_at = 0, run_id = NULL,
		fix_status = CASE WHEN ` + undone + ` THEN excluded.fix_status ELSE code_findings.fix_status END,
		fix_note = CASE WHEN ` + undone + ` THEN excluded.fix_note ELSE code_findings.fix_note END,
		pull_request = CASE WHEN ` + undone + ` THEN excluded.pull_request ELSE code_findings.pull_request END,
		pull_status = CASE WHEN ` + undone + ` THEN excluded.pull_status ELSE code_findings.pull_status END,
		category = excluded.category, check_name = excluded.check_name, service = excluded.service, insights = excluded.insights, body = excluded.body`

// SaveReview implements assay.CodebaseStore. It writes only findings that changed. A
// finding refers to its run while it is active through its repository.
func (q *Queries) SaveReview(ctx context.Context, holder string, r *assay.Run, repo *assay.Repository, findings []*assay.CodeFinding) error {
	list, err := reviewedFindings(findings)
	if err != nil {
		return err
	}
	if err := checkSizes("repository", assay.MaxCodeTextBytes, repo.DefaultBranch, repo.Access, r.Commit); err != nil {
		return err
	}
	if err := checkJSON("instrumentation of a repository", assay.MaxDocumentBytes, repo.Instrumentation); err != nil {
		return err
	}
	s := review{q: q}
	var last ID // the run of the review before
	// Many transactions, so that commits of telemetry do not wait for all of them.
	step := func(do func() error) error {
		return q.engine.Chunk(ctx, connpool.Scoring, "save a review", func(tx Tx) (err error) {
			if s.held, err = q.holdRun(ctx, tx, holder, r.ID); err != nil {
				return err
			}
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			if err := need(ctx, tx, errNoRepository, []any{&last},
				`SELECT reviewed_run FROM repositories WHERE repo = $1 AND id = $2`+q.sql.LockRows, s.held.repo, ID(repo.ID)); err != nil {
				return err
			}
			s.tx, s.now = tx, Micros(now)
			return do()
		})
	}
	if err := step(func() error { return s.load(ctx) }); err != nil {
		return err
	}
	gone, deleted := s.missing(list)
	for ids := range slices.Chunk(gone, findingRows) {
		if err := step(func() error {
			return change(ctx, s.tx, nil, `UPDATE code_findings SET state = state | 1, resolved_at = $1, run_id = $2 WHERE repo = $3 AND `+q.sql.In(`id`, `$4`), s.now, last, s.held.repo, ids)
		}); err != nil {
			return err
		}
	}
	for ids := range slices.Chunk(deleted, findingRows) {
		if err := step(func() error {
			return change(ctx, s.tx, nil, `DELETE FROM code_findings WHERE repo = $1 AND `+q.sql.In(`id`, `$2`), s.held.repo, ids)
		}); err != nil {
			return err
		}
	}
	for findings := range slices.Chunk(s.changed(list), findingRows) {
		if err := step(func() error { return s.save(ctx, findings) }); err != nil {
			return err
		}
	}
	return step(func() error {
		b := new(Batch)
		countFindings(b, s.held.org, s.held.repo)
		b.Exec(`UPDATE repositories SET reviewed_at = $1, reviewed_commit = $2, reviewed_run = $3, instrumentation = $4,
				default_branch = CASE WHEN $5 = 0 THEN default_branch ELSE $6 END, access = CASE WHEN $7 = 0 THEN access ELSE $8 END,
				attempted_at = CASE WHEN attempted_at < $1 THEN $1 ELSE attempted_at END
			WHERE repo = $9`,
			s.held.started, Text(r.Commit), ID(r.ID), document(repo.Instrumentation), len(repo.DefaultBranch), Text(repo.DefaultBranch), len(repo.Access), Text(repo.Access), s.held.repo)
		return s.tx.Send(ctx, b)
	})
}

// review saves the findings of a review. tx, held and now are of the current transaction.
type review struct {
	tx     Tx
	q      *Queries
	held   heldRun
	now    int64
	stored map[int64]*storedFinding
}

// load reads the stored findings.
func (s *review) load(ctx context.Context) error {
	s.stored = make(map[int64]*storedFinding)
	b := new(Batch)
	b.Query(func(r Row) error {
		f := new(storedFinding)
		var id, insights int64
		err := r.Scan(&id, &f.state, &f.resolvedAt, &f.digest, &insights)
		f.insights = insights != 0
		s.stored[id] = f
		return err
	}, `SELECT id, state, resolved_at, digest, CASE WHEN insights IS NULL THEN 0 ELSE 1 END FROM code_findings WHERE repo = $1`, s.held.repo)
	return s.tx.Send(ctx, b)
}

// missing returns the active findings that the review does not report, which are resolved now, and the oldest resolved
// findings beyond MaxFindings.
func (s *review) missing(list []reviewed) (gone, deleted []int64) {
	reported := make(map[int64]bool, len(list))
	for i := range list {
		reported[list[i].id] = true
	}
	var kept []int64
	for _, id := range slices.Sorted(maps.Keys(s.stored)) {
		f := s.stored[id]
		switch {
		case reported[id]:
			continue
		case f.state&findingResolved == 0:
			f.state, f.resolvedAt = f.state|findingResolved, s.now
			gone = append(gone, id)
		}
		kept = append(kept, id)
	}
	if n := len(kept) - assay.MaxFindings; n > 0 {
		slices.SortStableFunc(kept, func(a, b int64) int { return cmp.Compare(s.stored[a].resolvedAt, s.stored[b].resolvedAt) })
		deleted = kept[:n]
	}
	return gone, deleted
}

// changed returns the findings of the review that are new or not as stored.
func (s *review) changed(list []reviewed) []reviewed {
	return slices.DeleteFunc(list, func(f reviewed) bool {
		old := s.stored[f.id]
		return old != nil && old.state&findingResolved == 0 && bytes.Equal(old.digest, f.digest)
	})
}

// save adds or replaces findings.
func (s *review) save(ctx context.Context, findings []reviewed) error {
	var (
		b, links Batch
		relink   []int64
	)
	for _, f := range findings {
		b.Exec(saveFinding, s.held.repo, f.id, s.held.org, f.severity, f.digest, s.now, Text(f.Category), Text(f.Check), Text(f.Service),
			Text(f.FixStatus), Text(f.FixNote), f.PullRequest, Text(f.PullStatus), document(f.insights), []byte(f.Body))
		if old := s.stored[f.id]; old != nil && old.insights {
			relink = append(relink, f.id)
		}
		for _, id := range f.ids {
			links.Exec(`INSERT INTO code_finding_insights (insight, repo, id) VALUES ($1, $2, $3)`, ID(id), s.held.repo, f.id)
		}
	}
	if len(relink) > 0 {
		b.Exec(`DELETE FROM code_finding_insights WHERE repo = $1 AND `+s.q.sql.In(`id`, `$2`), s.held.repo, relink)
	}
	b.Statements = append(b.Statements, links.Statements...)
	return s.tx.Send(ctx, &b)
}
