// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/connpool"
)

// liveLease is the condition that the lease of a run r ends after the time $1 and not after
// the time $2. A later end comes from a clock that was ahead.
const liveLease = `(r.lease_ends_at > $1 AND r.lease_ends_at <= $2)`

// claimable finds the run to claim. It reads the organizations that have pending runs by a
// loose index scan, the oldest pending run of each whose repository has no running run, and
// the running runs whose leases have expired. An organization with fewer running runs goes
// first, then one whose last ten runs took fewer minutes within an hour, so that long runs of
// one do not delay each run of the others, then the run that has waited longest since it was
// created or, if that is later, since its organization last had a run. A run with an expired
// lease counts from its creation, and as if its organization had used no time.
func (q *Queries) claimable() string {
	running := `FROM runs r` + q.sql.Index(`runs_running`) + ` WHERE r.status = 2`
	return `WITH RECURSIVE waiting (org) AS (
			SELECT min(org) FROM runs WHERE status = 1
			UNION ALL SELECT (SELECT min(r.org) FROM runs r WHERE r.status = 1 AND r.org > waiting.org) FROM waiting WHERE waiting.org IS NOT NULL),
		busy (org, n) AS MATERIALIZED (SELECT r.org, count(*) ` + running + ` AND ` + liveLease + ` GROUP BY r.org),
		candidate (org, run) AS (
			SELECT org, (SELECT r.run FROM runs r WHERE r.status = 1 AND r.org = waiting.org
				AND NOT EXISTS (SELECT 1 FROM runs other WHERE other.repo = r.repo AND other.status = 2) ORDER BY r.run LIMIT 1)
			FROM waiting
			UNION ALL SELECT r.org, r.run ` + running + ` AND NOT ` + liveLease + `),
		waited (run, claims, busy, used, since) AS (
			SELECT r.run, r.claims, coalesce(busy.n, 0),
				CASE r.status WHEN 1 THEN (
					SELECT CAST(coalesce(sum(last.ended_at - last.started_at), 0) AS bigint) / 60000000
					FROM (SELECT o.started_at, o.ended_at FROM runs o` + q.sql.Index(`runs_started`) + ` WHERE o.org = c.org AND o.started_at > 0 ORDER BY o.run DESC LIMIT 10) AS last
					WHERE last.ended_at > last.started_at AND last.ended_at > $1 - 3600000000) ELSE 0 END,
				coalesce(
				CASE r.status WHEN 1 THEN (
					SELECT CASE WHEN o.ended_at > o.started_at AND o.ended_at > r.created_at THEN o.ended_at WHEN o.started_at > r.created_at THEN o.started_at END
					FROM runs o` + q.sql.Index(`runs_started`) + ` WHERE o.org = c.org AND o.started_at > 0 ORDER BY o.run DESC LIMIT 1) END, r.created_at)
			FROM candidate c JOIN runs r ON r.run = c.run LEFT JOIN busy ON busy.org = c.org)
		SELECT run, claims FROM waited ORDER BY busy, used, since, run LIMIT 1`
}

const errRunClaims = "the run was taken over too often: each replica that ran it stopped"

// ClaimRun implements assay.CodebaseStore.
func (q *Queries) ClaimRun(ctx context.Context, holder string, ttl time.Duration) (claimed *assay.Run, err error) {
	err = q.engine.Chunk(ctx, connpool.Scoring, "claim a run", func(tx Tx) error {
		claimed = nil
		if err := q.lockCodebase(ctx, tx, 0); err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		at, last := Micros(now), Micros(now.Add(delta.MaxLease))
		claimable := q.claimable()
		// Another run is next if the run has been claimed too often, or is cancelled between the
		// statements.
		for claimed == nil {
			var run, claims, n int64
			found, err := get(ctx, tx, []any{&run, &claims}, claimable, at, last)
			if err != nil || !found {
				return err
			}
			if claims >= assay.MaxRunClaims {
				if _, err := exec(ctx, tx, `UPDATE runs SET status = $1, ended_at = $2, holder = '', error = $3 WHERE run = $4 AND claims >= $5`,
					runFailed, at, Text(errRunClaims), run, assay.MaxRunClaims); err != nil {
					return err
				}
				continue
			}
			b := &Batch{[]Statement{{
				SQL: `UPDATE runs AS r SET status = 2, holder = $3, lease_ends_at = $4, claims = r.claims + 1, seen_at = $1,
						started_at = CASE r.started_at WHEN 0 THEN $1 ELSE r.started_at END
					WHERE r.run = $5 AND (r.status = 1 OR r.status = 2 AND NOT ` + liveLease + `)`,
				Args: []any{at, last, Text(holder), leaseEnd(now, ttl), run}, Changed: &n,
			}}}
			b.Query(into(&claimed, scanRun), selectRuns+`WHERE r.run = $1`, run)
			if err := tx.Send(ctx, b); err != nil {
				return err
			}
			if n == 0 {
				claimed = nil
			}
		}
		return nil
	})
	return result(claimed, err) // a claim that was not committed is none
}

// leaseEnd returns the end of a lease in its stored form.
func leaseEnd(now time.Time, ttl time.Duration) int64 {
	return Micros(now.Add(min(max(ttl, 0), delta.MaxLease)))
}

func errRunLost(id string) func() error {
	return func() error { return fmt.Errorf("lease of run %s: %w", id, delta.ErrLeaseLost) }
}

// RenewRun implements assay.CodebaseStore.
func (q *Queries) RenewRun(ctx context.Context, holder, id string, ttl time.Duration) (cancel bool, err error) {
	var cancelled, given int64
	if ttl <= 0 {
		given = 1
	}
	err = q.updateAt(ctx, connpool.OwnWork, "renew the lease of a run", func(tx Tx, now time.Time) error {
		return need(ctx, tx, errRunLost(id), []any{&cancelled}, `UPDATE runs SET lease_ends_at = $1, seen_at = $2, claims = claims - $5 WHERE id = $3 AND status = 2 AND holder = $4 RETURNING cancel`,
			leaseEnd(now, ttl), Micros(now), ID(id), Text(holder), given)
	})
	return result(cancelled != 0, err)
}

// heldRun is a run that a transaction has locked.
type heldRun struct{ run, org, repo, events, started int64 }

// holdRun locks a run of a holder. As with other leases, an expired one counts as held
// until another holder claims the run, which cannot happen before the transaction ends.
func (q *Queries) holdRun(ctx context.Context, tx Tx, holder, id string) (h heldRun, err error) {
	err = need(ctx, tx, errRunLost(id), []any{&h.run, &h.org, &h.repo, &h.events, &h.started},
		`SELECT run, org, repo, events, started_at FROM runs WHERE id = $1 AND status = 2 AND holder = $2`+q.sql.LockRows, ID(id), Text(holder))
	return result(h, err)
}

// UpdateRun implements assay.CodebaseStore.
func (q *Queries) UpdateRun(ctx context.Context, holder string, r *assay.Run, events []assay.RunEvent) error {
	status := runStatus(r.Status)
	if status < runRunning {
		return assay.Errorf(assay.CodeInvalid, "a run that has begun cannot have the status %q", r.Status)
	}
	var times []byte
	if len(r.PhaseTimes) > 0 {
		var err error
		if times, err = json.Marshal(r.PhaseTimes); err != nil {
			return assay.Errorf(assay.CodeInvalid, "encode the phases of a run: %w", err)
		}
	}
	if err := checkSizes("run", assay.MaxCodeTextBytes, r.Commit, r.Phase); err != nil {
		return err
	}
	if err := checkJSON("phases of the run", assay.MaxDocumentBytes, times); err != nil {
		return err
	}
	if err := checkJSON("result of the run", assay.MaxDocumentBytes, r.Result); err != nil {
		return err
	}
	for i := range events {
		e := &events[i]
		if err := checkSizes("event", assay.MaxCodeTextBytes, e.Name, e.Phase, e.Transition); err != nil {
			return err
		}
		if err := checkJSON("payload of an event", assay.MaxEventPayloadBytes, e.Payload); err != nil {
			return err
		}
	}
	return q.engine.Chunk(ctx, connpool.Scoring, "save a run", func(tx Tx) error {
		h, err := q.holdRun(ctx, tx, holder, r.ID)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		b := new(Batch)
		for _, e := range events[:min(int64(len(events)), max(assay.MaxRunEvents-h.events, 0))] {
			b.Exec(`INSERT INTO run_events (run, seq, at, name, message, phase, transition, payload) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
				h.run, h.events, Micros(now), Text(e.Name), message(e.Message), Text(e.Phase), Text(e.Transition), document(e.Payload))
			h.events++
		}
		ended, keeps := Micros(r.EndedAt), Text("")
		switch {
		case status == runRunning:
			ended, keeps = 0, Text(holder)
		case ended == 0:
			ended = Micros(now)
		}
		b.Exec(`UPDATE runs SET status = $1, commit_sha = $2, phase = $3, phase_times = $4, result = $5, error = $6, ended_at = $7, events = $8, holder = $9, seen_at = $10 WHERE run = $11`,
			status, Text(r.Commit), Text(r.Phase), document(times), document(r.Result), message(r.Error), ended, h.events, keeps, Micros(now), h.run)
		return tx.Send(ctx, b)
	})
}
