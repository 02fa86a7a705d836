// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"cmp"
	"slices"
	"strings"

	"assay"
	"assay/internal/rules/catalog"
)

// Services returns the services of an organization that a filter selects, in its order.
func Services(all []*assay.ServiceRow, f *assay.ServiceFilter) []*assay.ServiceRow {
	var found []*assay.ServiceRow
	for _, row := range all {
		category := assay.Unscored
		if row.Score != nil {
			category = row.Score.Category()
		}
		if (f.Search == "" || strings.Contains(strings.ToLower(row.Name), strings.ToLower(f.Search))) &&
			(f.Environment == nil || *f.Environment == row.Environment) &&
			(f.Category == "" || f.Category == category) &&
			(f.Signal == "" || slices.Contains(row.Signals, f.Signal)) {
			found = append(found, row)
		}
	}
	weight := func(r *assay.ServiceRow) int {
		return 40*r.Active.Critical + 30*r.Active.Important + 20*r.Active.Normal + 10*r.Active.Low
	}
	slices.SortFunc(found, func(a, b *assay.ServiceRow) int {
		by := 0
		switch f.Sort {
		case assay.SortServiceScore:
			if a.Score == nil || b.Score == nil {
				switch {
				case a.Score != nil:
					return -1
				case b.Score != nil:
					return 1
				}
			} else {
				by = cmp.Compare(a.Score.Value, b.Score.Value)
			}
		case assay.SortServiceLastSeen:
			by = a.LastSeenAt.Compare(b.LastSeenAt)
		case assay.SortServiceInsights:
			by = cmp.Compare(weight(a), weight(b))
		default:
			by = cmp.Compare(a.Name, b.Name)
		}
		if f.Descending {
			by = -by
		}
		return cmp.Or(by, cmp.Compare(a.Name, b.Name), cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Version, b.Version), cmp.Compare(a.ID, b.ID))
	})
	return found
}

// Insights returns the insights that a filter selects, in its order.
func Insights(all []*assay.Insight, f *assay.InsightFilter) []*assay.Insight {
	info := func(i *assay.Insight) *catalog.Info {
		if r, ok := catalog.ByInsightType(i.Type); ok {
			return r.Info()
		}
		return &catalog.Info{Impact: assay.ImpactLow, Signal: assay.SignalTrace}
	}
	var found []*assay.Insight
	for _, i := range all {
		if (f.OrganizationID == "" || f.OrganizationID == i.OrganizationID) &&
			(f.ServiceID == "" || f.ServiceID == i.Service.ID) &&
			(len(f.Statuses) == 0 || slices.Contains(f.Statuses, i.Status)) &&
			(f.Signal == "" || f.Signal == info(i).Signal) &&
			(len(f.Impacts) == 0 || slices.Contains(f.Impacts, info(i).Impact)) &&
			(f.Type == "" || f.Type == i.Type) &&
			(f.CreatedFrom.IsZero() || !i.CreatedAt.Before(f.CreatedFrom)) &&
			(f.CreatedTo.IsZero() || !i.CreatedAt.After(f.CreatedTo)) {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b *assay.Insight) int {
		c := 0
		switch f.Sort {
		case "", assay.SortCreatedAt:
			c = a.CreatedAt.Compare(b.CreatedAt)
		case assay.SortDetectedAt:
			c = a.DetectedAt.Compare(b.DetectedAt)
		case assay.SortUpdatedAt:
			c = a.UpdatedAt.Compare(b.UpdatedAt)
		case assay.SortImpact:
			c = cmp.Compare(info(a).Impact.Weight(), info(b).Impact.Weight())
		case assay.SortSignal:
			c = strings.Compare(string(info(a).Signal), string(info(b).Signal))
		}
		if f.Descending {
			c = -c
		}
		return cmp.Or(c, strings.Compare(a.ID, b.ID))
	})
	return found
}

// Page returns a page of a list.
func Page[T any](all []T, p assay.Page) []T {
	begin := min(p.Offset, len(all))
	return all[begin:min(begin+p.Limit, len(all))]
}
