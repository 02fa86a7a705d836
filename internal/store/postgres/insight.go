// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/paging"
)

// insightColumns are what insightOf reads of insightTables.
const (
	insightColumns = `i.id, o.id, i.rule, i.status, i.mute_reason, e.trace_id, e.telemetry_at, i.detected_at, i.created_at, e.updated_at, e.attributes,
		s.id, s.namespace, s.name, s.environment, s.version, s.first_seen_at, s.last_seen_at, s.created_at, s.updated_at`
	insightTables = `insights i JOIN evidence e ON e.svc = i.svc AND e.rule = i.rule JOIN services s ON s.svc = i.svc JOIN organizations o ON o.org = i.org`
)

func insightOf(row pgx.CollectableRow) (*assay.Insight, error) {
	var (
		in           assay.Insight
		rule, status int64
		attributes   []byte
	)
	svc := &in.Service
	err := row.Scan(&in.ID, &in.OrganizationID, &rule, &status, &in.MuteReason, &in.TraceID,
		(*instant)(&in.TelemetryAt), (*instant)(&in.DetectedAt), (*instant)(&in.CreatedAt), (*instant)(&in.UpdatedAt), &attributes,
		&svc.ID, (*raw)(&svc.Namespace), (*raw)(&svc.Name), (*raw)(&svc.Environment), (*raw)(&svc.Version),
		(*instant)(&svc.FirstSeenAt), (*instant)(&svc.LastSeenAt), (*instant)(&svc.CreatedAt), (*instant)(&svc.UpdatedAt))
	if err != nil {
		return nil, err
	}
	if in.Status, err = codec.InsightStatus(status); err != nil {
		return nil, err
	}
	in.Type, svc.OrganizationID = codec.InsightType(rule), in.OrganizationID
	if in.Attributes, err = codec.DecodeAttributes(attributes); err != nil {
		return nil, fmt.Errorf("insight %s: %w", in.ID, err)
	}
	return &in, nil
}

// insightSorts are the columns by which insights are sorted. In either direction ties
// are ordered by id ascending: each has an index for either.
var insightSorts = map[assay.InsightSort]string{
	"":                   `created_at`,
	assay.SortCreatedAt:  `created_at`,
	assay.SortDetectedAt: `detected_at`,
	assay.SortUpdatedAt:  `updated_at`,
	assay.SortImpact:     `weight`,
	assay.SortSignal:     `signal`,
}

// insightQuery is a filter as SQL, without the organization.
type insightQuery struct {
	where      []string
	args       pgx.NamedArgs
	everywhere bool // in all organizations
	counted    bool // insight_counts has all columns of the condition
}

func (q *insightQuery) and(condition, name string, value any) {
	q.where = append(q.where, condition)
	q.args[name] = value
}

// in returns the condition for the insights of an organization.
func (q *insightQuery) in(org string) string {
	where := q.where
	if !q.everywhere {
		where = append([]string{`org = ` + org}, where...)
	}
	if len(where) == 0 {
		return ``
	}
	return ` WHERE ` + strings.Join(where, ` AND `)
}

// whereInsights turns a filter into a condition on insights. Values that no
// insight has match none.
func whereInsights(f *assay.InsightFilter) *insightQuery {
	q := &insightQuery{everywhere: true, counted: true, args: make(pgx.NamedArgs)}
	if f.OrganizationID != "" {
		q.everywhere = false
		q.args["organization"] = uuidOf(f.OrganizationID)
	}
	if len(f.Statuses) > 0 {
		values := make([]int16, len(f.Statuses))
		for i, st := range f.Statuses {
			values[i] = int16(codec.StatusNumber(st))
		}
		q.and(`status = ANY (@statuses)`, "statuses", values)
	}
	if f.Signal != "" {
		q.and(`signal = @signal`, "signal", codec.SignalNumber(f.Signal))
	}
	if len(f.Impacts) > 0 {
		values := make([]int16, len(f.Impacts))
		for i, im := range f.Impacts {
			values[i] = int16(im.Weight())
		}
		q.and(`weight = ANY (@weights)`, "weights", values)
	}
	if f.Type != "" {
		q.and(`rule = @rule`, "rule", int16(codec.TypeNumber(f.Type)))
	}
	if f.ServiceID != "" {
		q.counted = false
		q.and(`svc = (SELECT svc FROM services WHERE id = @service)`, "service", uuidOf(f.ServiceID))
	}
	if !f.CreatedFrom.IsZero() {
		q.counted = false
		q.and(`created_at >= @from`, "from", f.CreatedFrom.UnixMicro())
	}
	if !f.CreatedTo.IsZero() {
		q.counted = false
		q.and(`created_at <= @to`, "to", f.CreatedTo.UnixMicro())
	}
	return q
}

// total is the statement that returns the organization's row and how many insights
// the filter leaves. It takes @organization; an unknown one has no row.
func (q *insightQuery) total() string {
	count := `(SELECT count(*) FROM insights` + q.in(`o.org`) + `)`
	if q.counted {
		count = `(SELECT coalesce(sum(n), 0)::bigint FROM insight_counts` + q.in(`o.org`) + `)`
	}
	if q.everywhere {
		return `SELECT 0::bigint, ` + count
	}
	return `SELECT o.org, ` + count + ` FROM organizations o WHERE o.id = @organization`
}

// page is the statement for the ids of a page, which are found in an index alone. It
// takes the organization's row @org, and @limit and @offset, which it counts from the
// end of the list where it is reversed. Then the ids come in the opposite order, too.
func (q *insightQuery) page(column string, descending, reversed bool) string {
	from := `insights`
	if column == `updated_at` {
		from = `evidence`
	}
	first, ties := ``, ``
	if descending != reversed {
		first = ` DESC`
	}
	if reversed {
		ties = ` DESC`
	}
	return `SELECT id FROM ` + from + q.in(`@org`) + ` ORDER BY ` + column + first + `, id` + ties + ` LIMIT @limit OFFSET @offset`
}

// insightsByID reads insights in the order of their ids in an array. The statement for
// a page leaves them to it, since a server plans that one anew for each page, and this
// one once.
const insightsByID = `SELECT ` + insightColumns + ` FROM unnest($1::uuid[]) WITH ORDINALITY AS p (id, place)
	JOIN insights i ON i.id = p.id JOIN evidence e ON e.svc = i.svc AND e.rule = i.rule JOIN services s ON s.svc = i.svc JOIN organizations o ON o.org = i.org ORDER BY p.place`

// FindInsights implements assay.InsightStore.
func (s *Store) FindInsights(ctx context.Context, f assay.InsightFilter) ([]*assay.Insight, int, error) {
	column, ok := insightSorts[f.Sort]
	if !ok {
		return nil, 0, assay.Errorf(assay.CodeInvalid, "unknown sort field %q", string(f.Sort))
	}
	q := whereInsights(&f)
	var (
		found []*assay.Insight
		org   int64
		total int
		ids   []pgtype.UUID
	)
	err := s.read(ctx, pages, "list insights",
		func(b *pgx.Batch) {
			total = 0
			b.Queue(q.total(), q.args).Query(func(rows pgx.Rows) error {
				_, err := pgx.ForEachRow(rows, []any{&org, &total}, func() error { return nil })
				return err
			})
		},
		func(b *pgx.Batch) {
			ids = nil
			part := paging.PartOf(f.Page, total)
			if part.Limit == 0 {
				return
			}
			args := maps.Clone(q.args)
			args["org"], args["limit"], args["offset"] = org, part.Limit, part.Offset
			b.Queue(q.page(column, f.Descending, part.Reversed), args).Query(func(rows pgx.Rows) (err error) {
				ids, err = pgx.CollectRows(rows, pgx.RowTo[pgtype.UUID])
				if part.Reversed {
					slices.Reverse(ids)
				}
				return err
			})
		},
		func(b *pgx.Batch) {
			found = nil
			if len(ids) == 0 {
				return
			}
			b.Queue(insightsByID, ids).Query(func(rows pgx.Rows) (err error) {
				found, err = pgx.AppendRows(make([]*assay.Insight, 0, len(ids)), rows, insightOf)
				return err
			})
		})
	if err != nil {
		return nil, 0, err
	}
	return found, total, nil
}

// FindInsightByID implements assay.InsightStore.
func (s *Store) FindInsightByID(ctx context.Context, organizationID, id string) (*assay.Insight, error) {
	where, args := `WHERE i.id = $1`, []any{uuidOf(id)}
	if organizationID != "" {
		where, args = where+` AND o.id = $2`, append(args, uuidOf(organizationID))
	}
	return one(ctx, s, pages, "find an insight", errNoInsight, insightOf,
		`SELECT `+insightColumns+` FROM `+insightTables+` `+where, args...)
}

func errNoInsight() error { return assay.Errorf(assay.CodeInsightNotFound, "no such insight") }
