// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
)

// mutable is an insight whose status is about to change. Its service is locked.
type mutable struct{ org, svc, rule, status int64 }

func (q *Queries) lockInsight(ctx context.Context, tx Tx, id string) (in mutable, err error) {
	var b Batch
	b.Query(func(r Row) error { return r.Scan(&in.svc) }, `SELECT s.svc FROM services s WHERE s.svc = (SELECT svc FROM insights WHERE id = $1)`+q.sql.LockService, ID(id))
	b.Query(func(r Row) error { return r.Scan(&in.org, &in.rule, &in.status) }, `SELECT org, rule, status FROM insights WHERE id = $1`, ID(id))
	if err = tx.Send(ctx, &b); err == nil && in.status == 0 {
		err = errNoInsight()
	}
	return in, err
}

// MuteInsight implements assay.InsightStore.
func (q *Queries) MuteInsight(ctx context.Context, id, reason string) error {
	return q.engine.Update(ctx, connpool.Pages, "mute an insight", func(tx Tx) error {
		if _, err := q.lockInsight(ctx, tx, id); err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		_, err = exec(ctx, tx, q.sql.SetStatus, ID(id), int64(codec.StatusMuted), reason, Micros(now), nil)
		return err
	})
}

// UnmuteInsight implements assay.InsightStore. It marks the service as unscored, so the
// scorer evaluates the insight again.
func (q *Queries) UnmuteInsight(ctx context.Context, id string) error {
	return q.engine.Update(ctx, connpool.Pages, "unmute an insight", func(tx Tx) error {
		in, err := q.lockInsight(ctx, tx, id)
		if err != nil || in.status != codec.StatusMuted {
			return err
		}
		failing, err := q.failing(ctx, tx, in)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		var b Batch
		if at := Micros(now); failing {
			b.Exec(q.sql.SetStatus, ID(id), int64(codec.StatusActive), ``, at, at)
		} else {
			b.Exec(q.sql.SetStatus, ID(id), int64(codec.StatusArchived), ``, at, nil)
		}
		b.Exec(`UPDATE services SET revision = revision + 1`+q.sql.Rescore+` WHERE svc = $1`, in.svc)
		return tx.Send(ctx, &b)
	})
}

// failing reports whether the window still contains a failure of an insight's rule.
func (q *Queries) failing(ctx context.Context, tx Tx, in mutable) (bool, error) {
	rule, ok := codec.RuleByNumber(in.rule)
	if !ok {
		return false, nil
	}
	var (
		b      Batch
		blob   []byte
		total  codec.Tally
		since  int64
		window = WindowStart
	)
	if rule.Claims() == catalog.Definitions {
		window = MetricWindowStart
	}
	b.Query(func(r Row) error { return r.Scan(&blob) }, `SELECT tally FROM services WHERE svc = $1`, in.svc)
	b.Query(func(r Row) error { return r.Scan(&since) }, `SELECT value FROM memory WHERE name = $1`, window)
	if err := tx.Send(ctx, &b); err != nil {
		return false, err
	}
	if err := total.UnmarshalBinary(blob); err != nil {
		return false, err
	}
	facts, claims := &delta.Facts{Totals: total.Counts}, make(map[catalog.Rule]delta.ClaimCount)
	b = Batch{}
	switch rule.Claims() {
	case catalog.Days:
		q.countDays(&b, factsBySvc{in.svc: facts}, []int64{in.svc}, delta.Bucket(since))
	case catalog.Instances, catalog.Definitions:
		q.countClaims(&b, claims, in.org, in.svc, rule, delta.Bucket(since))
	}
	if err := tx.Send(ctx, &b); err != nil {
		return false, err
	}
	return facts.Verdicts(claims)[rule].Failed > 0, nil
}
