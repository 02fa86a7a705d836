// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
)

// FindUsage implements assay.UsageStore.
func (q *Queries) FindUsage(ctx context.Context, organizationID string) ([]*assay.ServiceUsage, error) {
	var found usageBySvc
	err := q.engine.View(ctx, connpool.Pages, "read usage", func(b *Batch) {
		found = make(usageBySvc)
		org := ID(organizationID)
		const ofOrg = ` = (SELECT org FROM organizations WHERE id = $1)`
		b.Query(found.service(organizationID), `SELECT s.svc, s.id, s.namespace, s.name, s.environment, s.version, s.first_seen_at, s.last_seen_at, s.tally, coalesce(m.n, 0)
			FROM services s LEFT JOIN series m`+q.sql.Index(`series_counts`)+` ON m.svc = s.svc WHERE s.org`+ofOrg+` AND length(s.tally) > 0`, org)
		b.Query(found.insight, `SELECT svc, rule FROM insights`+q.sql.Index(`insights_active`)+` WHERE org`+ofOrg+` AND status = 1 ORDER BY svc, rule`, org)
		for _, rule := range numbers(catalog.Days) {
			b.Query(found.days, `SELECT c.svc, c.rule, c.key, count(*) FROM insights i`+q.sql.Index(`insights_active`)+` CROSS JOIN claims c
				WHERE c.svc = i.svc AND c.rule = i.rule AND i.org`+ofOrg+` AND i.status = 1 AND i.rule = $2 GROUP BY c.svc, c.rule, c.key`, org, rule)
		}
	})
	if err != nil {
		return nil, err
	}
	list := make([]*assay.ServiceUsage, 0, len(found))
	for _, u := range found {
		list = append(list, &u.ServiceUsage)
	}
	return list, nil
}

// usage is the usage of one service.
type usage struct {
	assay.ServiceUsage
	counts [catalog.Count]delta.Count
}

// usageBySvc is usage by the rows of services.
type usageBySvc map[int64]*usage

// service scans a service that sent telemetry.
func (us usageBySvc) service(organizationID string) func(Row) error {
	var (
		svc, series int64
		s           assay.Service
		blob        []byte
		total       codec.Tally
	)
	dest := []any{
		&svc, (*ID)(&s.ID), (*Text)(&s.Namespace), (*Text)(&s.Name), (*Text)(&s.Environment), (*Text)(&s.Version),
		(*Time)(&s.FirstSeenAt), (*Time)(&s.LastSeenAt), &blob, &series,
	}
	return func(r Row) error {
		if err := r.Scan(dest...); err != nil {
			return err
		}
		if err := total.UnmarshalBinary(blob); err != nil {
			return err
		}
		if total.Usage == ([delta.SignalCount]delta.Usage{}) {
			return nil
		}
		u := &usage{counts: total.Counts}
		u.Service, u.ActiveSeries = s, uint64(series)
		u.Service.OrganizationID = organizationID
		u.Traces = assay.SignalUsage(total.Usage[delta.Traces])
		u.Metrics = assay.SignalUsage(total.Usage[delta.Metrics])
		u.Logs = assay.SignalUsage(total.Usage[delta.Logs])
		us[svc] = u
		return nil
	}
}

// insight scans an active insight and adds the counts of its rule.
func (us usageBySvc) insight(r Row) error {
	var svc, number int64
	if err := r.Scan(&svc, &number); err != nil {
		return err
	}
	u := us[svc]
	if u == nil {
		return nil
	}
	in := assay.InsightUsage{Type: codec.InsightType(number)}
	if rule, ok := codec.RuleByNumber(number); ok {
		in.Observed, in.Failed = u.counts[rule].Observed, u.counts[rule].Failed
	}
	u.Insights = append(u.Insights, in)
	return nil
}

// days scans the days that an insight's rule counted.
func (us usageBySvc) days(r Row) error {
	var (
		svc, number, key int64
		days             uint64
	)
	if err := r.Scan(&svc, &number, &key, &days); err != nil {
		return err
	}
	u := us[svc]
	if u == nil {
		return nil
	}
	for i := range u.Insights {
		switch in := &u.Insights[i]; {
		case in.Type != codec.InsightType(number):
		case key == delta.KeyLogDay:
			in.Observed = days
		case key == delta.KeyDebugDay:
			in.Failed = days
		}
	}
	return nil
}
