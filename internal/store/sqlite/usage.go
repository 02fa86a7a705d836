// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/lane"
)

const (
	selectSeries         = `SELECT m.svc, m.n FROM services s CROSS JOIN series m INDEXED BY series_counts ON m.svc = s.svc WHERE s.org = ?`
	selectActiveInsights = `SELECT svc, rule FROM insights INDEXED BY insights_active WHERE org = ? AND status = 1`
	selectDebugDays      = `SELECT c.svc, c.key, count(*)
		FROM insights i INDEXED BY insights_active CROSS JOIN claims c ON c.svc = i.svc AND c.rule = i.rule
		WHERE i.org = ? AND i.status = 1 AND i.rule = ? GROUP BY c.svc, c.key`
)

// usage is what is read of one service.
type usage struct {
	assay.ServiceUsage
	counts [catalog.Count]delta.Count
}

// FindUsage implements assay.UsageStore.
func (s *Store) FindUsage(ctx context.Context, organizationID string) ([]*assay.ServiceUsage, error) {
	var found []*assay.ServiceUsage
	err := s.view(ctx, lane.Pages, "read usage", func(tx *sql.Tx) error {
		found = nil
		org, err := orgOf(ctx, tx, organizationID)
		if assay.ErrorCode(err) == assay.CodeNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		bySvc := make(map[int64]*usage)
		if err := sent(ctx, tx, org, idOf(blobOf(organizationID)), bySvc); err != nil {
			return err
		}
		if err := activeSeries(ctx, tx, org, bySvc); err != nil {
			return err
		}
		if err := activeInsights(ctx, tx, org, bySvc); err != nil {
			return err
		}
		for _, u := range bySvc {
			found = append(found, &u.ServiceUsage)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// sent reads the services that sent something.
func sent(ctx context.Context, tx *sql.Tx, org int64, organizationID string, bySvc map[int64]*usage) error {
	var (
		svc, first, last int64
		id, blob         []byte
		total            codec.Tally
	)
	rows, err := tx.QueryContext(ctx, `SELECT svc, id, namespace, name, environment, version, first_seen_at, last_seen_at, tally FROM services
		WHERE org = ? AND length(tally) > 0`, org)
	return each(rows, err, func(rows *sql.Rows) error {
		u := new(usage)
		k := &u.Service.ServiceKey
		if err := rows.Scan(&svc, &id, &k.Namespace, &k.Name, &k.Environment, &k.Version, &first, &last, &blob); err != nil {
			return err
		}
		if err := total.UnmarshalBinary(blob); err != nil {
			return err
		}
		if total.Usage == ([delta.SignalCount]delta.Usage{}) {
			return nil
		}
		u.Service.ID, u.Service.OrganizationID = idOf(id), organizationID
		u.Service.FirstSeenAt, u.Service.LastSeenAt = timeOf(first), timeOf(last)
		u.Traces = assay.SignalUsage(total.Usage[delta.Traces])
		u.Metrics = assay.SignalUsage(total.Usage[delta.Metrics])
		u.Logs = assay.SignalUsage(total.Usage[delta.Logs])
		u.counts = total.Counts
		bySvc[svc] = u
		return nil
	})
}

// activeSeries reads how many series the services have.
func activeSeries(ctx context.Context, tx *sql.Tx, org int64, bySvc map[int64]*usage) error {
	var svc int64
	var n uint64
	rows, err := tx.QueryContext(ctx, selectSeries, org)
	return each(rows, err, func(rows *sql.Rows) error {
		if err := rows.Scan(&svc, &n); err != nil {
			return err
		}
		if u := bySvc[svc]; u != nil {
			u.ActiveSeries = n
		}
		return nil
	})
}

// activeInsights reads the active insights of the services and what their rules
// counted.
func activeInsights(ctx context.Context, tx *sql.Tx, org int64, bySvc map[int64]*usage) error {
	var svc, rule int64
	rows, err := tx.QueryContext(ctx, selectActiveInsights, org)
	err = each(rows, err, func(rows *sql.Rows) error {
		if err := rows.Scan(&svc, &rule); err != nil {
			return err
		}
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
	if err != nil {
		return err
	}

	// LOG-001 counts days, by claims.
	var key int64
	var days uint64
	rows, err = tx.QueryContext(ctx, selectDebugDays, org, int64(codec.RuleNumber(catalog.LOG001)))
	return each(rows, err, func(rows *sql.Rows) error {
		if err := rows.Scan(&svc, &key, &days); err != nil {
			return err
		}
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
}
