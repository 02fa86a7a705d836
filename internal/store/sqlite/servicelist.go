// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/lane"
	"assay/internal/store/paging"
)

// A list of services is found in one index, which has every column that it is
// filtered and sorted by; rows are read for the services of a page only.
const listedServices = ` FROM services s INDEXED BY services_by_name`

// allServices is the condition on services s of a filter that leaves none out.
const allServices = ` WHERE s.org = ?`

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

// whereServices turns a filter into a condition on services s of an organization.
func whereServices(org int64, f *assay.ServiceFilter) (where string, args []any, err error) {
	where, args = allServices, []any{org}
	and := func(condition string, more ...any) {
		where += ` AND ` + condition
		args = append(args, more...)
	}
	if f.Search != "" {
		and(`instr(s.folded, ?) > 0`, codec.Fold(f.Search))
	}
	if f.Environment != nil {
		and(`s.environment = ?`, *f.Environment)
	}
	if f.Signal != "" {
		and(`s.signals & ? <> 0`, codec.SignalBit(f.Signal))
	}
	switch from, below, ok := assay.CategoryRange(f.Category); {
	case f.Category == "":
	case f.Category == assay.Unscored:
		and(`s.score IS NULL`)
	case !ok:
		return "", nil, assay.Errorf(assay.CodeInvalid, "unknown category %q", f.Category)
	default: // an infinity is no number that SQLite compares as one
		and(`s.score >= ? AND s.score < ?`, max(from, -math.MaxFloat64), min(below, math.MaxFloat64))
	}
	return where, args, nil
}

// rowColumns are what scanServiceRow reads.
const rowColumns = serviceColumns + `, s.svc, s.signals, s.critical, s.important, s.normal, s.low`

// FindServiceRows implements assay.ServiceLister.
func (s *Store) FindServiceRows(ctx context.Context, f assay.ServiceFilter) ([]*assay.ServiceRow, int, error) {
	terms, err := serviceOrder(&f)
	if err != nil {
		return nil, 0, err
	}
	var (
		found []*assay.ServiceRow
		total int
	)
	err = s.view(ctx, lane.Pages, "list services", func(tx *sql.Tx) error {
		found, total = nil, 0
		org, err := orgOf(ctx, tx, f.OrganizationID)
		if assay.ErrorCode(err) == assay.CodeNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		where, args, err := whereServices(org, &f)
		if err != nil {
			return err
		}
		count := `SELECT count(*)` + listedServices + where
		if where == allServices { // which are counted already
			count = `SELECT ifnull(sum(n), 0) FROM service_counts WHERE org = ?`
		}
		if err := tx.QueryRowContext(ctx, count, args...).Scan(&total); err != nil {
			return err
		}
		part := paging.PartOf(f.Page, total)
		if part.Limit == 0 {
			return nil
		}
		found, err = serviceRows(ctx, tx, f.Course, `WHERE s.svc IN (SELECT s.svc`+listedServices+where+orderBy(terms, part.Reversed)+limitOffset+`)`+orderBy(terms, false),
			append(slices.Clone(args), part.Limit, part.Offset)...)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return found, total, nil
}

// FindServiceVersions implements assay.ServiceLister.
func (s *Store) FindServiceVersions(ctx context.Context, organizationID string, key assay.ServiceKey, course assay.Course, limit int) ([]*assay.ServiceRow, error) {
	var found []*assay.ServiceRow
	err := s.view(ctx, lane.Pages, "list the versions of a service", func(tx *sql.Tx) error {
		found = nil
		org, err := orgOf(ctx, tx, organizationID)
		if assay.ErrorCode(err) == assay.CodeNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		const by = ` ORDER BY s.last_seen_at DESC, s.id`
		found, err = serviceRows(ctx, tx, course, `WHERE s.svc IN (SELECT s.svc`+listedServices+`
			WHERE s.org = ? AND s.name = ? AND s.environment = ? AND s.namespace = ?`+by+` LIMIT ? + 0)`+by,
			org, key.Name, key.Environment, key.Namespace, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// serviceRows reads services s that a condition finds, in its order.
func serviceRows(ctx context.Context, tx *sql.Tx, course assay.Course, where string, args ...any) ([]*assay.ServiceRow, error) {
	var found []*assay.ServiceRow
	bySvc := make(map[int64]*assay.ServiceRow)
	var svcs []int64
	rows, err := tx.QueryContext(ctx, `SELECT `+rowColumns+` FROM services s JOIN organizations o ON o.org = s.org `+where, args...)
	err = each(rows, err, func(rows *sql.Rows) error {
		row := new(assay.ServiceRow)
		var svc, signals int64
		if err := scanService(rows, &row.Service, &svc, &signals, &row.Active.Critical, &row.Active.Important, &row.Active.Normal, &row.Active.Low); err != nil {
			return err
		}
		row.Signals = codec.SignalNames(signals)
		found, bySvc[svc], svcs = append(found, row), row, append(svcs, svc)
		return nil
	})
	if err != nil || len(svcs) == 0 || course.Points <= 0 {
		return found, err
	}
	// One look into the history for each point, however much of it there is.
	rows, err = tx.QueryContext(ctx, `SELECT s.value, p.value, (
			SELECT score FROM scores c WHERE c.svc = s.value AND c.calculated_at > p.value - ? AND c.calculated_at <= p.value
			ORDER BY c.calculated_at DESC LIMIT 1) AS score
		FROM json_each(?) s CROSS JOIN json_each(?) p WHERE score IS NOT NULL ORDER BY s.key, p.key`,
		course.Reach().Microseconds(), jsonList(svcs), jsonTimes(course.Ends()))
	err = each(rows, err, func(rows *sql.Rows) error {
		var svc, at int64
		var value float64
		if err := rows.Scan(&svc, &at, &value); err != nil {
			return err
		}
		row := bySvc[svc]
		row.Course = append(row.Course, assay.ScorePoint{At: timeOf(at), Value: value})
		return nil
	})
	return found, err
}

// FindEnvironments implements assay.ServiceLister.
func (s *Store) FindEnvironments(ctx context.Context, organizationID string, limit int) ([]string, error) {
	var found []string
	err := s.query(ctx, lane.Pages, "list environments", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT DISTINCT s.environment`+listedServices+`
			WHERE s.org = (SELECT org FROM organizations WHERE id = ?) ORDER BY s.environment LIMIT ? + 0`, blobOf(organizationID), limit)
		return each(rows, err, func(rows *sql.Rows) error {
			var environment string
			err := rows.Scan(&environment)
			found = append(found, environment)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
