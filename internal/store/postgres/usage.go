// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
)

const (
	selectSent = `SELECT s.svc, s.id, s.namespace, s.name, s.environment, s.version, s.first_seen_at, s.last_seen_at, s.tally, coalesce(m.n, 0)
		FROM services s LEFT JOIN series m USING (svc)
		WHERE s.org = (SELECT org FROM organizations WHERE id = $1) AND length(s.tally) > 0`
	selectActiveInsights = `SELECT svc, rule FROM insights WHERE org = (SELECT org FROM organizations WHERE id = $1) AND status = 1`
	selectDebugDays      = `SELECT c.svc, c.key, count(*) FROM insights i JOIN claims c USING (svc, rule)
		WHERE i.org = (SELECT org FROM organizations WHERE id = $1) AND i.status = 1 AND i.rule = $2 GROUP BY c.svc, c.key`
)

// usage is what is read of one service.
type usage struct {
	assay.ServiceUsage
	counts [catalog.Count]delta.Count
}

// FindUsage implements assay.UsageStore.
func (s *Store) FindUsage(ctx context.Context, organizationID string) ([]*assay.ServiceUsage, error) {
	org := uuidOf(organizationID)
	bySvc := make(map[int64]*usage)
	err := s.read(ctx, pages, "read usage", func(b *pgx.Batch) {
		clear(bySvc)
		b.Queue(selectSent, org).Query(func(rows pgx.Rows) error { return sent(rows, idOf(org), bySvc) })
		b.Queue(selectActiveInsights, org).Query(func(rows pgx.Rows) error { return activeInsights(rows, bySvc) })
		b.Queue(selectDebugDays, org, int16(codec.RuleNumber(catalog.LOG001))).Query(func(rows pgx.Rows) error { return debugDays(rows, bySvc) })
	})
	if err != nil {
		return nil, err
	}
	found := make([]*assay.ServiceUsage, 0, len(bySvc))
	for _, u := range bySvc {
		found = append(found, &u.ServiceUsage)
	}
	return found, nil
}

// sent reads the services that sent something.
func sent(rows pgx.Rows, organizationID string, bySvc map[int64]*usage) error {
	var (
		svc   int64
		of    assay.Service
		blob  pgtype.DriverBytes
		total codec.Tally
		n     uint64
	)
	dest := []any{
		&svc, &of.ID, (*raw)(&of.Namespace), (*raw)(&of.Name), (*raw)(&of.Environment), (*raw)(&of.Version),
		(*instant)(&of.FirstSeenAt), (*instant)(&of.LastSeenAt), &blob, &n,
	}
	_, err := pgx.ForEachRow(rows, dest, func() error {
		if err := total.UnmarshalBinary(blob); err != nil {
			return err
		}
		if total.Usage == ([delta.SignalCount]delta.Usage{}) {
			return nil
		}
		u := &usage{counts: total.Counts}
		u.Service, u.ActiveSeries = of, n
		u.Service.OrganizationID = organizationID
		u.Traces = assay.SignalUsage(total.Usage[delta.Traces])
		u.Metrics = assay.SignalUsage(total.Usage[delta.Metrics])
		u.Logs = assay.SignalUsage(total.Usage[delta.Logs])
		bySvc[svc] = u
		return nil
	})
	return err
}

// activeInsights reads the active insights of the services and what their rules
// counted.
func activeInsights(rows pgx.Rows, bySvc map[int64]*usage) error {
	var svc, rule int64
	_, err := pgx.ForEachRow(rows, []any{&svc, &rule}, func() error {
		u := bySvc[svc]
		if u == nil {
			return nil
		}
		in := assay.InsightUsage{Type: codec.InsightType(rule)}
		if r, ok := codec.RuleByNumber(rule); ok {
			in.Observed, in.Failed = u.counts[r].Observed, u.counts[r].Failed
		}
		u.Insights = append(u.Insights, in)
		return nil
	})
	return err
}

// debugDays reads what LOG-001 counts: days, by claims.
func debugDays(rows pgx.Rows, bySvc map[int64]*usage) error {
	var (
		svc, key int64
		days     uint64
	)
	_, err := pgx.ForEachRow(rows, []any{&svc, &key, &days}, func() error {
		u := bySvc[svc]
		if u == nil {
			return nil
		}
		for i := range u.Insights {
			switch in := &u.Insights[i]; {
			case in.Type != catalog.LOG001.Info().Name:
			case key == delta.KeyLogDay:
				in.Observed = days
			case key == delta.KeyDebugDay:
				in.Failed = days
			}
		}
		return nil
	})
	return err
}
