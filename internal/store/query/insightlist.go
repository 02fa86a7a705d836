// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"slices"

	"assay"
	"assay/internal/lists"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
	"assay/internal/store/paging"
)

// insightOrder is a column by which insights are sorted, and its indexes for each
// direction. Ties are ordered by id ascending in both. An index read backward serves pages
// that are closer to the end of the list.
type insightOrder struct {
	column                string
	ascending, descending string
}

var insightOrders = map[assay.InsightSort]insightOrder{
	"":                   {"created_at", "insights_by_created_asc", "insights_by_created"},
	assay.SortCreatedAt:  {"created_at", "insights_by_created_asc", "insights_by_created"},
	assay.SortDetectedAt: {"detected_at", "insights_by_detected_asc", "insights_by_detected"},
	assay.SortUpdatedAt:  {"updated_at", "insights_by_updated_asc", "insights_by_updated"},
	assay.SortImpact:     {"weight", "insights_by_weight_asc", "insights_by_weight"},
	assay.SortSignal:     {"signal", "insights_by_signal", "insights_by_signal_desc"},
}

// insightFilter is a filter as SQL.
type insightFilter struct {
	*assay.InsightFilter
	conditions // the first argument is the organization
	sql        *Dialect
	order      insightOrder
	counted    bool // insight_counts has all columns of the conditions
}

// filterInsights converts a filter to conditions on insights. Unknown values match no
// insight.
func (q *Queries) filterInsights(f *assay.InsightFilter) (*insightFilter, error) {
	order, ok := insightOrders[f.Sort]
	if !ok {
		return nil, assay.Errorf(assay.CodeInvalid, "unknown sort field %q", string(f.Sort))
	}
	c := &insightFilter{InsightFilter: f, sql: q.sql, order: order, counted: true}
	if f.OrganizationID != "" {
		c.param(ID(f.OrganizationID))
	}
	if len(f.Statuses) > 0 {
		values := lists.Map(f.Statuses, codec.StatusNumber)
		c.and(q.sql.In(`status`, c.param(values)))
	}
	if f.Signal != "" {
		c.and(`signal = ` + c.param(codec.SignalNumber(f.Signal)))
	}
	if len(f.Impacts) > 0 {
		values := lists.Map(f.Impacts, func(im assay.Impact) int64 { return int64(im.Weight()) })
		c.and(q.sql.In(`weight`, c.param(values)))
	}
	if f.Type != "" {
		c.and(`rule = ` + c.param(codec.TypeNumber(f.Type)))
	}
	if f.ServiceID != "" {
		c.counted = false
		c.and(`svc = (SELECT svc FROM services WHERE id = ` + c.param(ID(f.ServiceID)) + `)`)
	}
	if !f.CreatedFrom.IsZero() {
		c.counted = false
		c.and(`created_at >= ` + c.param(f.CreatedFrom.UnixMicro()))
	}
	if !f.CreatedTo.IsZero() {
		c.counted = false
		c.and(`created_at <= ` + c.param(f.CreatedTo.UnixMicro()))
	}
	return c, nil
}

// in returns a WHERE clause for the insights of an organization, or of all.
func (c *insightFilter) in(org string) string {
	if c.OrganizationID == "" {
		return c.where()
	}
	return c.where(`org = ` + org)
}

// index returns the hint for the index that finds insights: the index other of the
// organization, unless the filter matches few insights. The planner cannot know that a
// service has few insights and an organization many.
func (c *insightFilter) index(other string) string {
	switch {
	case c.ServiceID != "":
		return c.sql.Index(`insights_by_service`)
	case c.OrganizationID == "":
		return ``
	case c.Type != "":
		return c.sql.Index(`insights_by_type`)
	default:
		return c.sql.Index(other)
	}
}

// total returns the statement for the organization's row and the number of its insights. An
// unknown organization has no row.
func (c *insightFilter) total() string {
	// If insight_counts has no count for the filter, the filter names a time span.
	count := `(SELECT count(*) FROM insights` + c.index(`insights_by_created`) + c.in(`o.org`) + `)`
	if c.counted {
		count = `(SELECT CAST(coalesce(sum(n), 0) AS bigint) FROM insight_counts` + c.in(`o.org`) + `)`
	}
	if c.OrganizationID == "" {
		return `SELECT 0, ` + count
	}
	return `SELECT o.org, ` + count + ` FROM organizations o WHERE o.id = $1`
}

// page returns the query for the rows of a page, which an index alone finds, and its
// arguments. The rows of a reversed part are in the opposite order.
func (c *insightFilter) page(org int64, part paging.Part) (string, []any) {
	table, index := `insights`, c.order.ascending
	if c.order.column == `updated_at` {
		table = c.sql.EvidenceTable
	}
	if c.Descending {
		index = c.order.descending
	}
	page := conditions{args: slices.Clone(c.args)}
	if c.OrganizationID != "" {
		page.args[0] = org
	}
	return `SELECT ` + c.sql.InsightKey + ` FROM ` + table + c.index(index) + c.in(`$1`) + c.orderBy(``, part.Reversed) + page.pageOf(part), page.args
}

// orderBy orders by columns with a prefix.
func (c *insightFilter) orderBy(prefix string, reversed bool) string {
	return orderBy([]term{{prefix + c.order.column, c.Descending}, {prefix + `id`, false}}, reversed)
}

// FindInsights implements assay.InsightStore.
func (q *Queries) FindInsights(ctx context.Context, f assay.InsightFilter) ([]*assay.Insight, int, error) {
	filter, err := q.filterInsights(&f)
	if err != nil {
		return nil, 0, err
	}
	var (
		org   int64
		total int
		ids   []ID
		found []*assay.Insight
	)
	steps := []func(*Batch){
		func(b *Batch) {
			total, ids, found = 0, nil, nil
			b.Query(func(r Row) error { return r.Scan(&org, &total) }, filter.total(), filter.args...)
		},
		func(b *Batch) {
			part := paging.PartOf(f.Page, total)
			if part.Limit == 0 {
				return
			}
			page, args := filter.page(org, part)
			if q.sql.PagesApart {
				b.Query(collect(&ids, value[ID]), page, args...)
				return
			}
			found = make([]*assay.Insight, 0, part.Limit)
			b.Query(collect(&found, scanInsight), q.selectInsights(``)+`WHERE `+q.sql.InSelect(`i.`+q.sql.InsightKey, page)+filter.orderBy(`i.`, false), args...)
		},
	}
	if q.sql.PagesApart {
		steps = append(steps, func(b *Batch) {
			if len(ids) == 0 {
				return
			}
			if paging.PartOf(f.Page, total).Reversed {
				slices.Reverse(ids)
			}
			found = make([]*assay.Insight, 0, len(ids))
			b.Query(collect(&found, scanInsight), q.selectInsights(q.sql.IDs(`$1`, `p`)+` CROSS JOIN `)+`WHERE i.id = p.value ORDER BY p.key`, ids)
		})
	}
	err = q.engine.View(ctx, connpool.Pages, "list insights", steps...)
	return pair(found, total, err)
}
