// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"assay/internal/delta"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
)

// UnscoredServices returns the ids of an organization's services whose facts changed
// since they were last scored. With all, it returns the services that have facts in the
// window, a score or an insight.
func (q *Queries) UnscoredServices(ctx context.Context, organizationID string, all bool) ([]string, error) {
	where := q.sql.Unscored
	if all {
		where = `(` + where + ` OR length(tally) > 0 OR score_id IS NOT NULL
			OR EXISTS (SELECT 1 FROM insights i WHERE i.svc = s.svc)
			OR EXISTS (SELECT 1 FROM claims c WHERE c.svc = s.svc))`
	}
	return list(ctx, q, connpool.Scoring, "list unscored services", scanID,
		`SELECT id FROM services s WHERE org = (SELECT org FROM organizations WHERE id = $1) AND `+where, ID(organizationID))
}

// ExpiredBefore returns the start of the last window to which Expire has reduced the counts
// and claims, 0 if there was none.
func (q *Queries) ExpiredBefore(ctx context.Context) (start delta.Bucket, err error) {
	err = q.engine.View(ctx, connpool.Scoring, "read the window", func(b *Batch) {
		start = 0
		b.Query(func(r Row) error { return r.Scan(&start) }, `SELECT value FROM memory WHERE name = $1`, WindowStart)
	})
	return result(start, err)
}

// maxFacts limits the services of one call of Facts.
const maxFacts = 500

// Facts returns the input for scoring at most 500 services, in no order and from one
// snapshot. It leaves out unknown ids, ids of other organizations, and evidence and days
// before since.
func (q *Queries) Facts(ctx context.Context, organizationID string, serviceIDs []string, since delta.Bucket) ([]*delta.Facts, error) {
	if len(serviceIDs) > maxFacts {
		return nil, fmt.Errorf("load facts: %d services asked for, at most %d allowed", len(serviceIDs), maxFacts)
	}
	if len(serviceIDs) == 0 {
		return nil, nil
	}
	var found factsBySvc
	err := q.engine.View(ctx, connpool.Scoring, "load facts",
		func(b *Batch) {
			found = make(factsBySvc, len(serviceIDs))
			b.Query(found.service, `SELECT `+serviceColumns+`, s.svc, s.revision, s.tally
				FROM `+q.sql.IDs(`$2`, `p`)+` CROSS JOIN services s JOIN organizations o ON o.org = s.org WHERE s.id = p.value AND o.id = $1`,
				ID(organizationID), IDs(serviceIDs))
		},
		func(b *Batch) {
			svcs := slices.Sorted(maps.Keys(found))
			if len(svcs) == 0 {
				return
			}
			b.Query(found.examples, `SELECT svc, facts FROM examples WHERE `+q.sql.In(`svc`, `$1`), svcs)
			b.Query(found.items(since), `SELECT svc, facts FROM items WHERE `+q.sql.In(`svc`, `$1`), svcs)
			q.countDays(b, found, svcs, since)
			b.Query(found.insight(), q.selectInsights(``)+`WHERE `+q.sql.In(`i.svc`, `$1`)+` ORDER BY i.svc, i.rule`, svcs)
		})
	if err != nil {
		return nil, err
	}
	return slices.Collect(maps.Values(found)), nil
}

// factsBySvc are facts by the rows of their services.
type factsBySvc map[int64]*delta.Facts

func (fs factsBySvc) service(r Row) error {
	f := new(delta.Facts)
	var (
		svc, revision int64
		blob          []byte
		total         codec.Tally
	)
	if err := scanService(r, &f.Service, &svc, &revision, &blob); err != nil {
		return err
	}
	if err := total.UnmarshalBinary(blob); err != nil {
		return err
	}
	f.Revision, f.Totals = uint64(revision), total.Counts
	fs[svc] = f
	return nil
}

func (fs factsBySvc) examples(r Row) error {
	var svc int64
	var blob []byte
	if err := r.Scan(&svc, &blob); err != nil {
		return err
	}
	return codec.DecodeExamples(blob, &fs[svc].Examples)
}

func (fs factsBySvc) items(since delta.Bucket) func(Row) error {
	return func(r Row) error {
		var svc int64
		var blob []byte
		if err := r.Scan(&svc, &blob); err != nil {
			return err
		}
		items, err := codec.DecodeItems(blob)
		maps.DeleteFunc(items, func(_ delta.Item, b delta.Bucket) bool { return b < since })
		fs[svc].Items = items
		return err
	}
}

func (fs factsBySvc) insight() func(Row) error {
	byID := make(map[string]*delta.Facts, len(fs))
	for _, f := range fs {
		byID[f.Service.ID] = f
	}
	return func(r Row) error {
		in, err := scanInsight(r)
		if err != nil {
			return err
		}
		f := byID[in.Service.ID]
		f.Insights = append(f.Insights, in)
		return nil
	}
}

// countDays counts the days that services claim since a bucket.
func (q *Queries) countDays(b *Batch, found factsBySvc, svcs []int64, since delta.Bucket) {
	count := func(r Row) error {
		var svc, key int64
		var days uint64
		if err := r.Scan(&svc, &key, &days); err != nil {
			return err
		}
		switch key {
		case delta.KeyLogDay:
			found[svc].LogDays = days
		case delta.KeyDebugDay:
			found[svc].DebugDays = days
		}
		return nil
	}
	for _, rule := range numbers(catalog.Days) {
		b.Query(count, `SELECT svc, key, count(*) FROM claims WHERE `+q.sql.In(`svc`, `$1`)+` AND rule = $2 AND last >= $3 GROUP BY svc, key`, svcs, rule, int64(since))
	}
}

// numbers returns the numbers of the rules with claims of a kind.
func numbers(kind catalog.ClaimKind) []int64 {
	return lists.Map(catalog.Claiming(kind), func(r catalog.Rule) int64 { return int64(codec.RuleNumber(r)) })
}

// OrganizationMean returns the mean of the unrounded current scores of an organization's
// services, and the number of services with a score. It adds the scores in a fixed order, so
// that the same scores have the same mean.
func (q *Queries) OrganizationMean(ctx context.Context, organizationID string) (mean float64, services int, err error) {
	err = q.engine.View(ctx, connpool.Scoring, "average scores", func(b *Batch) {
		b.Query(func(r Row) error { return r.Scan(&mean, &services) }, `SELECT coalesce(avg(score), 0), count(score) FROM (
			SELECT score FROM services WHERE org = (SELECT org FROM organizations WHERE id = $1) AND score_id IS NOT NULL ORDER BY svc) AS s`, ID(organizationID))
	})
	return pair(mean, services, err)
}

// ScoreSlot is the resolution of the history of an organization's score.
const ScoreSlot = 10 * time.Minute

// SaveOrganizationScore stores the mean score of an organization and adds it to its
// history, or stores that it has none. The same score as before keeps its time until the
// next hour, whichever replica computes it. Without the lease of the fence it returns
// delta.ErrLeaseLost and stores nothing.
func (q *Queries) SaveOrganizationScore(ctx context.Context, f delta.Fence, organizationID string, score *float64, at time.Time) error {
	if score == nil {
		at = time.Time{}
	}
	return q.engine.Update(ctx, connpool.Scoring, "save an organization's score", func(tx Tx) error {
		var org int64
		err := need(ctx, tx, errNoOrganization, []any{&org}, `UPDATE organizations SET score = $1,
				score_updated_at = CASE WHEN score = $1 AND score_updated_at / 3600000000 = CAST($2 AS bigint) / 3600000000 THEN score_updated_at ELSE $2 END
			WHERE id = $3 RETURNING org`, score, Micros(at), ID(organizationID))
		if err == nil && score != nil {
			_, err = exec(ctx, tx, `INSERT INTO organization_scores AS c (org, slot, at, score) VALUES ($1, $2, $3, $4)
				ON CONFLICT (org, slot) DO UPDATE SET at = excluded.at, score = excluded.score WHERE excluded.at >= c.at`,
				org, at.UnixMicro()/ScoreSlot.Microseconds(), Micros(at), *score)
		}
		if err != nil {
			return err
		}
		return tx.CheckFence(ctx, f)
	})
}
