// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"assay"
	"assay/internal/store/connpool"
)

// Statuses of runs in their stored form. Indexes and statements name 1 and 2.
const (
	runPending int64 = iota + 1
	runRunning
	runCompleted
	runFailed
	runCancelled
)

var runStatuses = []string{assay.RunPending, assay.RunRunning, assay.RunCompleted, assay.RunFailed, assay.RunCancelled}

// runStatus returns the stored form of a status, 0 for an unknown one.
func runStatus(s string) int64 { return int64(slices.Index(runStatuses, s) + 1) }

const selectRuns = `
SELECT r.id, o.id, p.id, i.id, r.repository_name, r.type, r.status, r.cause, r.ref, r.commit_sha, r.phase, r.phase_times,
	r.created_at, r.started_at, r.ended_at, r.seen_at, r.input, r.result, r.error, r.cancel
FROM runs r JOIN repositories p ON p.repo = r.repo JOIN installations i ON i.installation = p.installation JOIN organizations o ON o.org = r.org `

func scanRun(row Row) (*assay.Run, error) {
	var (
		r                     = new(assay.Run)
		status, cancel        int64
		times, input, results []byte
	)
	if err := row.Scan((*ID)(&r.ID), (*ID)(&r.OrganizationID), (*ID)(&r.RepositoryID), (*ID)(&r.InstallationID), (*Text)(&r.RepositoryName),
		(*Text)(&r.Type), &status, (*Text)(&r.Trigger), (*Text)(&r.Ref), (*Text)(&r.Commit), (*Text)(&r.Phase), &times,
		(*Time)(&r.CreatedAt), (*Time)(&r.StartedAt), (*Time)(&r.EndedAt), (*Time)(&r.SeenAt), &input, &results, (*Text)(&r.Error), &cancel); err != nil {
		return nil, err
	}
	if status >= runPending && status <= runCancelled {
		r.Status = runStatuses[status-1]
	}
	r.Input, r.Result, r.Cancel = input, results, cancel != 0
	if times != nil {
		if err := json.Unmarshal(times, &r.PhaseTimes); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// runBacklog is the number of runs of a repository at which no more are scheduled: the
// expiry is far behind.
const runBacklog = 10 * assay.MaxRepositoryRuns

// ScheduleRun implements assay.CodebaseStore.
func (q *Queries) ScheduleRun(ctx context.Context, r *assay.Run) (scheduled *assay.Run, created bool, err error) {
	id, err := checkID(r.ID)
	if err != nil {
		return nil, false, err
	}
	if err := checkSizes("run", assay.MaxCodeTextBytes, r.Type, r.Trigger, r.Ref); err != nil {
		return nil, false, err
	}
	if err := checkJSON("input of the run", assay.MaxDocumentBytes, r.Input); err != nil {
		return nil, false, err
	}
	var refused error
	err = q.engine.Update(ctx, connpool.Pages, "schedule a run", func(tx Tx) error {
		scheduled, refused = nil, nil
		var (
			org, repo      int64
			name           Text
			total, pending int
		)
		if err := need(ctx, tx, errNoRepository, []any{&org, &repo, &name},
			`SELECT r.org, r.repo, r.full_name FROM repositories r WHERE r.id = $1 AND r.org = (SELECT org FROM organizations WHERE id = $2)`+q.sql.LockRows,
			ID(r.RepositoryID), ID(r.OrganizationID)); err != nil {
			return err
		}
		one := into(&scheduled, scanRun)
		b := new(Batch)
		same, args := `r.input IS NULL`, []any{repo, Text(r.Type), Text(r.Ref)}
		if len(r.Input) > 0 {
			same, args = `r.input = $4`, append(args, document(r.Input))
		}
		b.Query(one, selectRuns+`WHERE r.repo = $1 AND r.status = 1 AND r.type = $2 AND r.ref = $3 AND `+same+` ORDER BY r.run LIMIT 1`, args...)
		b.Query(func(r Row) error { return r.Scan(&total, &pending) }, `SELECT count(*), count(*) FILTER (WHERE status = 1) FROM runs WHERE repo = $1`, repo)
		if err := tx.Send(ctx, b); err != nil {
			return err
		}
		created = scheduled == nil
		switch {
		case !created:
			return nil
		case pending >= assay.MaxPendingRuns:
			refused = assay.Errorf(assay.CodeConflict, "%d runs of the repository are pending, which is the limit", pending)
		case total >= runBacklog:
			refused = assay.Errorf(assay.CodeConflict, "the repository has %d runs; old ones have to expire first", total)
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		b = new(Batch)
		if refused == nil {
			b.Exec(`INSERT INTO runs (id, org, repo, repository_name, type, status, cause, ref, created_at, input) VALUES ($1, $2, $3, $4, $5, 1, $6, $7, $8, $9)`,
				ID(id), org, repo, name, Text(r.Type), Text(r.Trigger), Text(r.Ref), Micros(now), document(r.Input))
			b.Query(one, selectRuns+`WHERE r.id = $1`, ID(id))
		}
		// Also if the run is refused: a repository that cannot be reviewed must not stay first among those that are
		// due.
		if r.Type == assay.RunReview && r.Ref == "" {
			b.Exec(`UPDATE repositories SET attempted_at = $1 WHERE repo = $2 AND attempted_at < $1`, Micros(now), repo)
		}
		return q.conflict(tx.Send(ctx, b), "a run with this id exists")
	})
	return pair(scheduled, created, cmp.Or(err, refused))
}

// CancelRun implements assay.CodebaseStore.
func (q *Queries) CancelRun(ctx context.Context, organizationID, id string) error {
	return q.updateAt(ctx, connpool.Pages, "cancel a run", func(tx Tx, now time.Time) error {
		return change(ctx, tx, errNoRun, `UPDATE runs SET
				cancel = CASE status WHEN 2 THEN 1 ELSE cancel END,
				ended_at = CASE status WHEN 1 THEN $1 ELSE ended_at END,
				status = CASE status WHEN 1 THEN 5 ELSE status END
			WHERE id = $2 AND org = (SELECT org FROM organizations WHERE id = $3)`, Micros(now), ID(id), ID(organizationID))
	})
}

// Run implements assay.CodebaseStore.
func (q *Queries) Run(ctx context.Context, organizationID, id string) (*assay.Run, error) {
	return one(ctx, q, connpool.Pages, "find a run", errNoRun, scanRun, selectRuns+`WHERE r.id = $1 AND o.id = $2`, ID(id), ID(organizationID))
}

// Runs implements assay.CodebaseStore.
func (q *Queries) Runs(ctx context.Context, organizationID string, f assay.RunFilter) (page []*assay.Run, total int, err error) {
	c := &conditions{args: []any{ID(organizationID)}}
	statuses, err := filterValues(f.Statuses, func(s string) any { return runStatus(s) })
	if err != nil {
		return nil, 0, err
	}
	types, err := filterValues(f.Types, textValue)
	if err != nil {
		return nil, 0, err
	}
	c.and(`r.org = (SELECT org FROM organizations WHERE id = $1)`)
	if f.RepositoryID != "" {
		c.and(`r.repo = (SELECT repo FROM repositories WHERE id = ` + c.param(ID(f.RepositoryID)) + `)`)
	}
	c.in(`r.status`, statuses)
	c.in(`r.type`, types)
	where, args := c.where(), slices.Clone(c.args)
	p := codebasePage(f.Limit, f.Offset)
	limit := ` LIMIT CAST(` + c.param(p.Limit) + ` AS bigint) OFFSET CAST(` + c.param(p.Offset) + ` AS bigint)`
	err = q.engine.View(ctx, connpool.Pages, "list runs", func(b *Batch) {
		page, total = nil, 0
		b.Query(func(r Row) error { return r.Scan(&total) }, `SELECT count(*) FROM runs r`+where, args...)
		b.Query(collect(&page, scanRun), selectRuns+`WHERE `+q.sql.InSelect(`r.run`, `SELECT r.run FROM runs r`+where+` ORDER BY r.run DESC`+limit)+` ORDER BY r.run DESC`, c.args...)
	})
	return pair(page, total, err)
}

// RunEvents implements assay.CodebaseStore.
func (q *Queries) RunEvents(ctx context.Context, organizationID, runID string, after int64, limit int) (events []assay.RunEvent, latest int64, err error) {
	const ofOrg = ` FROM runs r JOIN organizations o ON o.org = r.org WHERE r.id = $1 AND o.id = $2`
	found := false
	err = q.engine.View(ctx, connpool.Pages, "list the events of a run", func(b *Batch) {
		events, found = nil, false
		b.Query(func(r Row) error {
			found = true
			return r.Scan(&latest)
		}, `SELECT r.events`+ofOrg, ID(runID), ID(organizationID))
		b.Query(collect(&events, func(r Row) (e assay.RunEvent, err error) {
			var payload []byte
			err = r.Scan(&e.Seq, (*Time)(&e.At), (*Text)(&e.Name), (*Text)(&e.Message), (*Text)(&e.Phase), (*Text)(&e.Transition), &payload)
			e.Payload = payload
			return e, err
		}), `SELECT seq, at, name, message, phase, transition, payload FROM run_events WHERE run = (SELECT r.run`+ofOrg+`) AND seq > $3 ORDER BY seq LIMIT CAST($4 AS bigint)`,
			ID(runID), ID(organizationID), after, min(max(limit, 0), assay.MaxCodebasePage))
	})
	if !found {
		err = orMissing(err, errNoRun)
	}
	return pair(events, latest-1, err)
}
