// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay"
	"assay/internal/lists"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
	"assay/internal/store/paging"
)

// term is an expression of services s that orders a list.
type term struct {
	sql        string
	descending bool
}

// weighted is the sum of the weights of a service's active insights.
var weighted = fmt.Sprintf(`%d * s.critical + %d * s.important + %d * s.normal + %d * s.low`,
	assay.ImpactCritical.Weight(), assay.ImpactImportant.Weight(), assay.ImpactNormal.Weight(), assay.ImpactLow.Weight())

// serviceOrder returns the order of a filter. Ties are ordered by name, environment, version
// and id.
func (q *Queries) serviceOrder(f *assay.ServiceFilter) ([]term, error) {
	ties := []term{{sql: `s.name`}, {sql: `s.environment`}, {sql: `s.version`}, {sql: `s.id`}}
	var first []term
	switch f.Sort {
	case "", assay.SortServiceName:
		ties[0].descending = f.Descending
		if q.sql.NamePrefix != nil { // the first column of the index
			first = []term{{q.sql.NamePrefix(`s.name`), f.Descending}}
		}
	case assay.SortServiceScore:
		first = []term{{`s.score IS NULL`, false}, {`s.score`, f.Descending}}
	case assay.SortServiceLastSeen:
		first = []term{{`s.last_seen_at`, f.Descending}}
	case assay.SortServiceInsights:
		first = []term{{weighted, f.Descending}}
	default:
		return nil, assay.Errorf(assay.CodeInvalid, "unknown sort field %q", string(f.Sort))
	}
	return append(first, ties...), nil
}

// orderBy writes terms, in the opposite direction for a reversed list.
func orderBy(terms []term, reversed bool) string {
	list := make([]string, len(terms))
	for i, t := range terms {
		list[i] = t.sql
		if t.descending != reversed {
			list[i] += ` DESC`
		}
	}
	return ` ORDER BY ` + strings.Join(list, `, `)
}

// conditions are joined by AND. Their parameters follow the initial args.
type conditions struct {
	list []string
	args []any
}

// param adds an argument and returns its parameter.
func (c *conditions) param(v any) string {
	c.args = append(c.args, v)
	return fmt.Sprintf(`$%d`, len(c.args))
}

func (c *conditions) and(condition string) { c.list = append(c.list, condition) }

// where returns a WHERE clause of the conditions, with first in front.
func (c *conditions) where(first ...string) string {
	all := append(first, c.list...)
	if len(all) == 0 {
		return ``
	}
	return ` WHERE ` + strings.Join(all, ` AND `)
}

// pageOf ends a statement that finds a page. If the parameter of a limit stands alone,
// SQLite plans the statement twice.
func (c *conditions) pageOf(p paging.Part) string {
	return ` LIMIT CAST(` + c.param(p.Limit) + ` AS bigint) OFFSET CAST(` + c.param(p.Offset) + ` AS bigint)`
}

// serviceConditions converts a filter to conditions on services s. The first parameter is
// the organization.
func (q *Queries) serviceConditions(f *assay.ServiceFilter) (*conditions, error) {
	c := &conditions{args: []any{ID(f.OrganizationID)}}
	if f.Search != "" {
		c.and(q.sql.Contains(`s.folded`, c.param(codec.Fold(f.Search))))
	}
	if f.Environment != nil {
		c.and(`s.environment = ` + c.param(Text(*f.Environment)))
	}
	if f.Namespace != nil {
		c.and(`s.namespace = ` + c.param(Text(*f.Namespace)))
	}
	if f.Signal != "" {
		c.and(`s.signals & ` + c.param(codec.SignalBit(f.Signal)) + ` <> 0`)
	}
	switch from, below, ok := assay.CategoryRange(f.Category); {
	case f.Category == "":
	case f.Category == assay.Unscored:
		c.and(`s.score IS NULL`)
	case !ok:
		return nil, assay.Errorf(assay.CodeInvalid, "unknown category %q", f.Category)
	default: // SQLite cannot compare numbers with an infinity
		c.and(`s.score >= ` + c.param(max(from, -math.MaxFloat64)) + ` AND s.score < ` + c.param(min(below, math.MaxFloat64)))
	}
	return c, nil
}

// findServices returns the length of a filtered list. It selects columns of services s
// and organizations o for one page; scan collects the rows after reset. Then it runs the
// steps.
func (q *Queries) findServices(ctx context.Context, f *assay.ServiceFilter, columns string, reset func(), scan func(Row) error, steps ...func(*Batch)) (total int, err error) {
	terms, err := q.serviceOrder(f)
	if err != nil {
		return 0, err
	}
	filter, err := q.serviceConditions(f)
	if err != nil {
		return 0, err
	}
	// This index may have all columns that services are filtered and sorted by.
	services := ` FROM services s` + q.sql.Index(`services_by_name`)
	count := `SELECT count(*)` + services + filter.where(`s.org = o.org`)
	if len(filter.list) == 0 {
		count = `SELECT n FROM service_counts c WHERE c.org = o.org`
	}
	var org int64
	err = q.engine.View(ctx, connpool.Pages, "list services", append([]func(*Batch){
		func(b *Batch) {
			total = 0
			reset()
			b.Query(func(r Row) error { return r.Scan(&org, &total) },
				`SELECT o.org, coalesce((`+count+`), 0) FROM organizations o WHERE o.id = $1`, filter.args...)
		},
		func(b *Batch) {
			part := paging.PartOf(f.Page, total)
			if part.Limit == 0 {
				return
			}
			page := conditions{filter.list, slices.Clone(filter.args)}
			page.args[0] = org
			b.Query(scan, `SELECT `+columns+` FROM organizations o CROSS JOIN services s WHERE o.org = $1 AND `+
				q.sql.InSelect(`s.svc`, `SELECT s.svc`+services+page.where(`s.org = $1`)+orderBy(terms, part.Reversed)+page.pageOf(part))+orderBy(terms, false), page.args...)
		},
	}, steps...)...)
	return result(total, err)
}

// FindServices implements assay.ServiceStore.
func (q *Queries) FindServices(ctx context.Context, organizationID string, page assay.Page) ([]*assay.Service, int, error) {
	var found []*assay.Service
	total, err := q.findServices(ctx, &assay.ServiceFilter{OrganizationID: organizationID, Page: page}, serviceColumns, func() { found = nil }, collect(&found, serviceOf))
	return pair(found, total, err)
}

// FindServiceRows implements assay.ServiceLister.
func (q *Queries) FindServiceRows(ctx context.Context, f assay.ServiceFilter) ([]*assay.ServiceRow, int, error) {
	var rows serviceRows
	total, err := q.findServices(ctx, &f, rowColumns, func() { rows = nil }, rows.scan, func(b *Batch) { rows.querySeries(b, q.sql, f.Series) })
	return pair(rows.list(), total, err)
}

// FindServiceVersions implements assay.ServiceLister.
func (q *Queries) FindServiceVersions(ctx context.Context, organizationID string, key assay.ServiceKey, series assay.SeriesRange, limit int) ([]*assay.ServiceRow, error) {
	var rows serviceRows
	name := ``
	if q.sql.NamePrefix != nil { // matches the index
		name = q.sql.NamePrefix(`s.name`) + ` = ` + q.sql.NamePrefix(`CAST($2 AS bytea)`) + ` AND `
	}
	err := q.engine.View(ctx, connpool.Pages, "list the versions of a service",
		func(b *Batch) {
			rows = nil
			const by = ` ORDER BY s.last_seen_at DESC, s.id`
			b.Query(rows.scan, `SELECT `+rowColumns+` FROM services s JOIN organizations o ON o.org = s.org
				WHERE `+q.sql.InSelect(`s.svc`, `SELECT s.svc FROM services s`+q.sql.Index(`services_by_name`)+`
				WHERE s.org = (SELECT org FROM organizations WHERE id = $1) AND `+name+`s.name = $2 AND s.environment = $3 AND s.namespace = $4`+by+` LIMIT CAST($5 AS bigint)`)+by,
				ID(organizationID), Text(key.Name), Text(key.Environment), Text(key.Namespace), limit)
		},
		func(b *Batch) { rows.querySeries(b, q.sql, series) })
	return result(rows.list(), err)
}

// FindServiceGroups implements assay.ServiceLister.
func (q *Queries) FindServiceGroups(ctx context.Context, f assay.ServiceGroupFilter) ([]*assay.ServiceGroup, int, error) {
	terms := []term{{sql: `s.name`}, {sql: `s.environment`}, {sql: `s.namespace`}}
	switch f.Sort {
	case assay.SortGroupName:
		terms[0].descending = f.Descending
	case assay.SortGroupCreated:
		terms = append([]term{{`g.created`, f.Descending}}, terms...)
	case assay.SortGroupInsights:
		terms = append([]term{{`s.critical + s.important + s.normal + s.low`, f.Descending}}, terms...)
	default:
		return nil, 0, assay.Errorf(assay.CodeInvalid, "unknown sort field %q", string(f.Sort))
	}
	const (
		by      = ` OVER (PARTITION BY s.name, s.environment, s.namespace`
		grouped = `WITH g AS (SELECT s.svc, row_number()` + by + ` ORDER BY s.last_seen_at DESC, s.id) AS place, count(*)` + by + `) AS versions,
			min(s.created_at)` + by + `) AS created FROM services s WHERE s.org = (SELECT org FROM organizations WHERE id = $1)) `
	)
	var (
		found []*assay.ServiceGroup
		total int
	)
	err := q.engine.View(ctx, connpool.Pages, "list service groups", func(b *Batch) {
		found, total = nil, 0
		b.Query(func(r Row) error { return r.Scan(&total) }, grouped+`SELECT count(*) FROM g WHERE g.place = 1`, ID(f.OrganizationID))
	}, func(b *Batch) {
		part := paging.PartOf(f.Page, total)
		if part.Limit == 0 {
			return
		}
		c := &conditions{args: []any{ID(f.OrganizationID)}}
		b.Query(func(r Row) error {
			g := &assay.ServiceGroup{Latest: new(assay.Service)}
			found = append(found, g)
			return scanService(r, g.Latest, &g.Versions, &g.Insights)
		}, grouped+`SELECT `+serviceColumns+`, g.versions, s.critical + s.important + s.normal + s.low
			FROM g JOIN services s ON s.svc = g.svc JOIN organizations o ON o.org = s.org WHERE g.place = 1`+orderBy(terms, part.Reversed)+c.pageOf(part), c.args...)
	})
	if paging.PartOf(f.Page, total).Reversed {
		slices.Reverse(found)
	}
	return pair(found, total, err)
}

// serviceRows are the rows of a list, with their row numbers in services.
type serviceRows []listedService

type listedService struct {
	*assay.ServiceRow
	svc int64
}

// rowColumns are the columns that serviceRows.scan reads.
const rowColumns = serviceColumns + `, s.svc, s.signals, s.critical, s.important, s.normal, s.low`

func (rows *serviceRows) scan(r Row) error {
	l := listedService{ServiceRow: new(assay.ServiceRow)}
	var signals int64
	err := scanService(r, &l.Service, &l.svc, &signals, &l.Active.Critical, &l.Active.Important, &l.Active.Normal, &l.Active.Low)
	l.Signals = codec.SignalNames(signals)
	*rows = append(*rows, l)
	return err
}

// querySeries reads the time series of the rows' scores. It searches the history once
// for each service and end of a step.
func (rows serviceRows) querySeries(b *Batch, d *Dialect, series assay.SeriesRange) {
	if len(rows) == 0 || series.Points <= 0 {
		return
	}
	svcs, bySvc := make([]int64, len(rows)), make(map[int64]*assay.ServiceRow, len(rows))
	for i, l := range rows {
		l.Series = nil
		svcs[i], bySvc[l.svc] = l.svc, l.ServiceRow
	}
	b.Query(func(r Row) error {
		var svc int64
		var p assay.ScorePoint
		if err := r.Scan(&svc, (*Time)(&p.At), &p.Value); err != nil {
			return err
		}
		bySvc[svc].Series = append(bySvc[svc].Series, p)
		return nil
	}, d.Found(`s.value, p.value`, `SELECT c.score FROM scores c WHERE c.svc = s.value AND c.calculated_at > p.value - $3 AND c.calculated_at <= p.value
			ORDER BY c.calculated_at DESC LIMIT 1`, d.Ints(`$1`, `s`)+` CROSS JOIN `+d.Ints(`$2`, `p`))+` ORDER BY s.key, p.key`,
		svcs, micros(series.Ends()), series.Reach().Microseconds())
}

func (rows serviceRows) list() []*assay.ServiceRow {
	return lists.Map(rows, func(l listedService) *assay.ServiceRow { return l.ServiceRow })
}

// FindEnvironments implements assay.ServiceLister.
func (q *Queries) FindEnvironments(ctx context.Context, organizationID string, limit int) ([]string, error) {
	return list(ctx, q, connpool.Pages, "list environments", func(r Row) (string, error) {
		name, err := value[Text](r)
		return string(name), err
	}, `SELECT DISTINCT s.environment FROM services s`+q.sql.Index(`services_by_name`)+`
		WHERE s.org = (SELECT org FROM organizations WHERE id = $1) ORDER BY s.environment LIMIT CAST($2 AS bigint)`, ID(organizationID), limit)
}
