// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"assay"
	"assay/internal/fair"
)

// Config configures an Analyst. Store is required.
type Config struct {
	Store  assay.UsageStore
	Prices Prices
	Window time.Duration    // window of the store; default assay.DefaultWindow
	Now    func() time.Time // default time.Now
	CPU    *fair.Semaphore  // for computing, by organization; nil: no limit
}

// Analyst implements assay.Analyst. It is safe for concurrent use.
type Analyst struct{ cfg Config }

var _ assay.Analyst = (*Analyst)(nil)

// New returns an Analyst, or CodeInvalid for invalid prices.
func New(cfg Config) (*Analyst, error) {
	if err := cfg.Prices.Validate(); err != nil {
		return nil, err
	}
	if cfg.Window <= 0 {
		cfg.Window = assay.DefaultWindow
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Analyst{cfg: cfg}, nil
}

// Analyze implements assay.Analyst.
//
// The versions of a service form one row. Their active series are added, because the store has the number of series
// of a version and not their identity. A series that two versions sent, as after a deployment, counts twice, while a
// backend that does not store the version counts it once.
func (a *Analyst) Analyze(ctx context.Context, organizationID string, limit int) (*assay.ServiceAnalytics, error) {
	found, err := a.cfg.Store.FindUsage(ctx, organizationID)
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	leave, err := a.cfg.CPU.Enter(ctx, organizationID)
	if err != nil {
		return nil, err
	}
	defer leave()
	end := a.cfg.Now().UTC()
	out := &assay.ServiceAnalytics{Start: end.Add(-a.cfg.Window), End: end, Currency: a.cfg.Prices.Currency}
	all := a.rows(found)
	for i := range all {
		out.TotalBytes += all[i].Bytes()
		out.TotalCost += all[i].EstimatedCost
	}
	slices.SortFunc(all, func(x, y assay.ServiceCost) int {
		return cmp.Or(cmp.Compare(y.Bytes(), x.Bytes()),
			cmp.Compare(x.Name, y.Name), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Environment, y.Environment))
	})
	out.Services = slices.Clone(all[:min(max(limit, 0), len(all))])
	return out, nil
}

// rows merges the versions of each service.
func (a *Analyst) rows(found []*assay.ServiceUsage) []assay.ServiceCost {
	// Versions of a service are adjacent and in a fixed order, because sums of costs depend on the order.
	versions := slices.Clone(found)
	slices.SortFunc(versions, func(x, y *assay.ServiceUsage) int {
		return cmp.Or(compareNames(x, y), cmp.Compare(x.Service.ID, y.Service.ID))
	})
	rows := make([]assay.ServiceCost, 0, len(versions))
	for len(versions) > 0 {
		n := 1
		for n < len(versions) && compareNames(versions[0], versions[n]) == 0 {
			n++
		}
		rows = append(rows, a.row(versions[:n]))
		versions = versions[n:]
	}
	return rows
}

// compareNames compares the fields that versions of a service share.
func compareNames(x, y *assay.ServiceUsage) int {
	a, b := &x.Service.ServiceKey, &y.Service.ServiceKey
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Environment, b.Environment))
}

// row returns the row of one service from its versions, at least one.
func (a *Analyst) row(versions []*assay.ServiceUsage) assay.ServiceCost {
	latest := versions[0]
	var row assay.ServiceCost
	var saved costs
	for _, u := range versions {
		add(&row.Traces, u.Traces)
		add(&row.Metrics, u.Metrics)
		add(&row.Logs, u.Logs)
		row.ActiveSeries += u.ActiveSeries
		c := a.cfg.Prices.costs(u.Traces.Bytes, u.Metrics.Bytes, u.Logs.Bytes, u.ActiveSeries)
		for p, s := range avoidable(u, &c) {
			saved[p] += s
		}
		if u.Service.LastSeenAt.After(latest.Service.LastSeenAt) {
			latest = u
		}
	}
	row.ID, row.Version = latest.Service.ID, latest.Service.Version
	row.Name, row.Namespace, row.Environment = latest.Service.Name, latest.Service.Namespace, latest.Service.Environment
	c := a.cfg.Prices.costs(row.Traces.Bytes, row.Metrics.Bytes, row.Logs.Bytes, row.ActiveSeries)
	for p := range saved {
		saved[p] = min(saved[p], c[p]) // avoid rounding errors above the cost
	}
	row.TracesCost = assay.SignalCost{Estimated: c[traces], Avoidable: saved[traces]}
	row.MetricsCost = assay.SignalCost{Estimated: c[metrics] + c[series], Avoidable: saved[metrics] + saved[series]}
	row.LogsCost = assay.SignalCost{Estimated: c[logs], Avoidable: saved[logs]}
	row.EstimatedCost, row.AvoidableCost = c.sum(), saved.sum()
	return row
}

func add(to *assay.SignalUsage, u assay.SignalUsage) {
	to.Items += u.Items
	to.Bytes += u.Bytes
}
