// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"assay"
	"assay/internal/store/connpool"
)

// FindingsKept is the retention of resolved findings.
const FindingsKept = 90 * 24 * time.Hour

// repositoriesAhead is the number of repositories with too many runs that one query finds.
const repositoriesAhead = 100

// ExpireCodebase implements assay.CodebaseStore.
func (q *Queries) ExpireCodebase(ctx context.Context, resolvedBefore time.Time) error {
	var failures []error
	for _, step := range []func() error{
		func() error { return q.expireFindings(ctx, Micros(resolvedBefore)) },
		func() error {
			return q.deleteRows(ctx, connpool.Scoring, "delete old onboarding states", "onboarding_states", `hash`, `expires_at < $1`, Micros(resolvedBefore), q.sql.RowChunk)
		},
		func() error { return q.expireRuns(ctx) },
	} {
		err := step()
		failures = append(failures, err)
		if q.engine.Unavailable(ctx, err) {
			break
		}
	}
	return errors.Join(failures...)
}

// expireFindings deletes findings resolved before a time. A transaction deletes those of one
// repository, since it counts the rest again.
func (q *Queries) expireFindings(ctx context.Context, before int64) error {
	for {
		found := false
		err := q.engine.Chunk(ctx, connpool.Scoring, "delete old findings", func(tx Tx) (err error) {
			var org, repo int64
			found, err = get(ctx, tx, []any{&org, &repo}, `SELECT r.org, r.repo FROM repositories r WHERE r.repo = (
				SELECT f.repo FROM code_findings f WHERE f.resolved_at > 0 AND f.resolved_at < $1 ORDER BY f.resolved_at LIMIT 1)`+q.sql.LockRows, before)
			if err != nil || !found {
				return err
			}
			b := new(Batch)
			b.Exec(q.sql.DeleteSome(`code_findings`, `repo, id`, `resolved_at > 0 AND resolved_at < $1 AND repo = $3`), before, documentRows, repo)
			countFindings(b, org, repo)
			return tx.Send(ctx, b)
		})
		if err != nil || !found {
			return err
		}
	}
}

// expireRuns deletes the oldest runs of each repository that have ended, beyond
// MaxRepositoryRuns. It continues with the next repository after one that fails.
func (q *Queries) expireRuns(ctx context.Context) error {
	var failure error
	for last := int64(0); ; {
		var repos []int64
		err := q.engine.View(ctx, connpool.Scoring, "find old runs", func(b *Batch) {
			repos = nil
			b.Query(collect(&repos, value[int64]), `SELECT repo FROM runs WHERE repo > $1 GROUP BY repo HAVING count(*) > $2 ORDER BY repo LIMIT CAST($3 AS bigint)`,
				last, assay.MaxRepositoryRuns, repositoriesAhead)
		})
		if err != nil {
			return errors.Join(failure, err)
		}
		for _, repo := range repos {
			const old = `repo = $1 AND status > 2 AND run <= (SELECT run FROM runs WHERE repo = $1 ORDER BY run DESC LIMIT 1 OFFSET `
			beyond := old + strconv.Itoa(assay.MaxRepositoryRuns) + `)`
			err := q.deleteRuns(ctx, connpool.Scoring, "delete old runs", beyond, repo)
			if q.engine.Unavailable(ctx, err) {
				return errors.Join(failure, err)
			}
			failure = cmp.Or(failure, err)
			last = repo
		}
		if len(repos) < repositoriesAhead {
			return failure
		}
	}
}
