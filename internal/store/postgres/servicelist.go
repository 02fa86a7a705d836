// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/paging"
)

// term is something that services s are ordered by.
type term struct {
	sql        string
	descending bool
}

// serviceOrder returns what a filter orders by.
func serviceOrder(f *assay.ServiceFilter) ([]term, error) {
	ties := []term{{sql: `s.name`}, {sql: `s.environment`}, {sql: `s.version`}, {sql: `s.id`}}
	var first []term
	switch f.Sort {
	case "", assay.SortServiceName:
		ties[0].descending = f.Descending
		first = []term{{`substr(s.name, 1, 1024)`, f.Descending}} // as the index services_by_name begins
	case assay.SortServiceScore:
		first = []term{{`s.score IS NULL`, false}, {`s.score`, f.Descending}}
	case assay.SortServiceLastSeen:
		first = []term{{`s.last_seen_at`, f.Descending}}
	case assay.SortServiceInsights:
		first = []term{{`40 * s.critical + 30 * s.important + 20 * s.normal + 10 * s.low`, f.Descending}}
	default:
		return nil, assay.Errorf(assay.CodeInvalid, "unknown sort field %q", string(f.Sort))
	}
	return append(first, ties...), nil
}

// orderBy writes terms, in the other direction when they are reversed.
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

// whereServices turns a filter into a condition on services s of the organization @org.
func whereServices(f *assay.ServiceFilter) (where string, args pgx.NamedArgs, err error) {
	where, args = ` WHERE s.org = @org`, make(pgx.NamedArgs)
	if f.Search != "" {
		where += ` AND position(@search::bytea IN s.folded) > 0`
		args["search"] = codec.Fold(f.Search)
	}
	if f.Environment != nil {
		where += ` AND s.environment = @environment`
		args["environment"] = bytesOf(*f.Environment)
	}
	if f.Signal != "" {
		where += ` AND s.signals & @signal::smallint <> 0`
		args["signal"] = int16(codec.SignalBit(f.Signal))
	}
	switch from, below, ok := assay.CategoryRange(f.Category); {
	case f.Category == "":
	case f.Category == assay.Unscored:
		where += ` AND s.score IS NULL`
	case !ok:
		return "", nil, assay.Errorf(assay.CodeInvalid, "unknown category %q", f.Category)
	default:
		where += ` AND s.score >= @from AND s.score < @below`
		args["from"], args["below"] = from, below
	}
	return where, args, nil
}

// rowColumns are what serviceRowOf reads.
const rowColumns = serviceColumns + `, s.svc, s.signals, s.critical, s.important, s.normal, s.low`

// listedService is a row of a list and its place in the table.
type listedService struct {
	*assay.ServiceRow
	svc int64
}

func listedServiceOf(row pgx.CollectableRow) (listedService, error) {
	l := listedService{ServiceRow: new(assay.ServiceRow)}
	var signals int64
	err := scanService(row, &l.Service, &l.svc, &signals, &l.Active.Critical, &l.Active.Important, &l.Active.Normal, &l.Active.Low)
	l.Signals = codec.SignalNames(signals)
	return l, err
}

// FindServiceRows implements assay.ServiceLister.
func (s *Store) FindServiceRows(ctx context.Context, f assay.ServiceFilter) ([]*assay.ServiceRow, int, error) {
	terms, err := serviceOrder(&f)
	if err != nil {
		return nil, 0, err
	}
	where, args, err := whereServices(&f)
	if err != nil {
		return nil, 0, err
	}
	var (
		listed []listedService
		total  int
	)
	args["organization"] = uuidOf(f.OrganizationID)
	err = s.read(ctx, pages, "list services",
		func(b *pgx.Batch) {
			total = 0
			b.Queue(`SELECT o.org, (SELECT count(*) FROM services s`+strings.ReplaceAll(where, `@org`, `o.org`)+`) FROM organizations o WHERE o.id = @organization`, args).
				Query(func(rows pgx.Rows) error {
					var org int64
					_, err := pgx.ForEachRow(rows, []any{&org, &total}, func() error {
						args["org"] = org
						return nil
					})
					return err
				})
		},
		func(b *pgx.Batch) {
			listed = nil
			part := paging.PartOf(f.Page, total)
			if part.Limit == 0 {
				return
			}
			args["limit"], args["offset"] = part.Limit, part.Offset
			b.Queue(`SELECT `+rowColumns+` FROM services s JOIN organizations o ON o.org = s.org
				WHERE s.svc = ANY (ARRAY (SELECT s.svc FROM services s`+where+orderBy(terms, part.Reversed)+` LIMIT @limit OFFSET @offset))`+orderBy(terms, false), args).
				Query(func(rows pgx.Rows) (err error) {
					listed, err = pgx.CollectRows(rows, listedServiceOf)
					return err
				})
		},
		func(b *pgx.Batch) { queueCourses(b, listed, f.Course) })
	if err != nil {
		return nil, 0, err
	}
	return rowsOf(listed), total, nil
}

// FindServiceVersions implements assay.ServiceLister.
func (s *Store) FindServiceVersions(ctx context.Context, organizationID string, key assay.ServiceKey, course assay.Course, limit int) ([]*assay.ServiceRow, error) {
	var listed []listedService
	name := bytesOf(key.Name)
	err := s.read(ctx, pages, "list the versions of a service",
		func(b *pgx.Batch) {
			listed = nil
			b.Queue(`SELECT `+rowColumns+` FROM services s JOIN organizations o ON o.org = s.org
				WHERE o.id = $1 AND substr(s.name, 1, 1024) = $2 AND s.name = $3 AND s.environment = $4 AND s.namespace = $5
				ORDER BY s.last_seen_at DESC, s.id LIMIT $6`,
				uuidOf(organizationID), name[:min(len(name), 1024)], name, bytesOf(key.Environment), bytesOf(key.Namespace), limit).
				Query(func(rows pgx.Rows) (err error) {
					listed, err = pgx.CollectRows(rows, listedServiceOf)
					return err
				})
		},
		func(b *pgx.Batch) { queueCourses(b, listed, course) })
	if err != nil {
		return nil, err
	}
	return rowsOf(listed), nil
}

func rowsOf(listed []listedService) []*assay.ServiceRow {
	rows := make([]*assay.ServiceRow, len(listed))
	for i, l := range listed {
		rows[i] = l.ServiceRow
	}
	return rows
}

// coursesOf looks into the history once for each service ($1) and end of a step ($2),
// no further back than $3.
const coursesOf = `SELECT s.place, p.at, c.score
	FROM unnest($1::bigint[]) WITH ORDINALITY AS s (svc, place) CROSS JOIN unnest($2::bigint[]) AS p (at)
		CROSS JOIN LATERAL (SELECT score FROM scores WHERE svc = s.svc AND calculated_at > p.at - $3::bigint AND calculated_at <= p.at
			ORDER BY calculated_at DESC LIMIT 1) AS c
	ORDER BY s.place, p.at`

// queueCourses fills the courses of services.
func queueCourses(b *pgx.Batch, listed []listedService, course assay.Course) {
	if len(listed) == 0 || course.Points <= 0 {
		return
	}
	svcs := make([]int64, len(listed))
	for i, l := range listed {
		l.Course = nil
		svcs[i] = l.svc
	}
	b.Queue(coursesOf, svcs, microsOf(course.Ends()), course.Reach().Microseconds()).Query(func(rows pgx.Rows) error {
		var place int
		var p assay.ScorePoint
		_, err := pgx.ForEachRow(rows, []any{&place, (*instant)(&p.At), &p.Value}, func() error {
			row := listed[place-1].ServiceRow
			row.Course = append(row.Course, p)
			return nil
		})
		return err
	})
}

func microsOf(times []time.Time) []int64 {
	list := make([]int64, len(times))
	for i, t := range times {
		list[i] = micros(t)
	}
	return list
}

// FindEnvironments implements assay.ServiceLister.
func (s *Store) FindEnvironments(ctx context.Context, organizationID string, limit int) ([]string, error) {
	of := func(row pgx.CollectableRow) (environment string, err error) {
		return environment, row.Scan((*raw)(&environment))
	}
	return list(ctx, s, pages, "list environments", of, `SELECT DISTINCT s.environment FROM services s
		WHERE s.org = (SELECT org FROM organizations WHERE id = $1) ORDER BY s.environment LIMIT $2`, uuidOf(organizationID), limit)
}
