// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/jackc/pgx/v5"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/paging"
)

const selectInsights = `
SELECT i.id, o.id, i.rule, i.status, i.mute_reason, i.trace_id, i.telemetry_at, i.detected_at, i.created_at, i.updated_at, i.attributes,
	s.id, s.namespace, s.name, s.environment, s.version, s.first_seen_at, s.last_seen_at, s.created_at, s.updated_at
FROM insights i JOIN services s ON s.svc = i.svc JOIN organizations o ON o.org = i.org `

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

// insightColumns are what insights are sorted by. In either direction ties are
// ordered by id ascending: each has an index for either.
var insightColumns = map[assay.InsightSort]string{
	"":                   `created_at`,
	assay.SortCreatedAt:  `created_at`,
	assay.SortDetectedAt: `detected_at`,
	assay.SortUpdatedAt:  `updated_at`,
	assay.SortImpact:     `weight`,
	assay.SortSignal:     `signal`,
}

// insightOrder is what insights are ordered by, each column with a prefix.
func insightOrder(prefix, column string, descending, reversed bool) string {
	first, ties := ``, ``
	if descending != reversed {
		first = ` DESC`
	}
	if reversed {
		ties = ` DESC`
	}
	return ` ORDER BY ` + prefix + column + first + `, ` + prefix + `id` + ties
}

// insightQuery is a filter as SQL. counted tells that insight_counts has all
// columns of the condition.
type insightQuery struct {
	where   []string
	args    pgx.NamedArgs
	counted bool
}

func (q *insightQuery) and(condition, name string, value any) {
	q.where = append(q.where, condition)
	q.args[name] = value
}

func (q *insightQuery) String() string {
	if len(q.where) == 0 {
		return ``
	}
	return ` WHERE ` + strings.Join(q.where, ` AND `)
}

// whereInsights turns a filter into a condition on insights. Values that no
// insight has match none.
func whereInsights(f *assay.InsightFilter) *insightQuery {
	q := &insightQuery{counted: true, args: make(pgx.NamedArgs)}
	if f.OrganizationID != "" {
		q.and(`org = (SELECT org FROM organizations WHERE id = @org)`, "org", uuidOf(f.OrganizationID))
	}
	if len(f.Statuses) > 0 {
		values := make([]int16, len(f.Statuses))
		for i, st := range f.Statuses {
			values[i] = int16(codec.StatusNumber(st))
		}
		q.and(`status = ANY (@statuses)`, "statuses", values)
	}
	if f.Signal != "" {
		q.and(`signal = @signal`, "signal", int16(codec.SignalNumber(f.Signal)))
	}
	if len(f.Impacts) > 0 {
		values := make([]int16, len(f.Impacts))
		for i, im := range f.Impacts {
			values[i] = int16(im.Weight())
		}
		q.and(`weight = ANY (@weights)`, "weights", values)
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

// total is the statement that counts what a filter leaves.
func (q *insightQuery) total() string {
	if q.counted {
		return `SELECT coalesce(sum(n), 0)::bigint FROM insight_counts` + q.String()
	}
	return `SELECT count(*) FROM insights` + q.String()
}

// page is the statement for a page. It takes @limit and @offset, and counts them from
// the end of the list where it is reversed; its rows come in the order of the list
// all the same.
func (q *insightQuery) page(column string, descending, reversed bool) string {
	// The page is found in the index alone; rows are read for its insights only.
	return selectInsights + `WHERE i.id IN (SELECT id FROM insights` + q.String() + insightOrder(``, column, descending, reversed) + ` LIMIT @limit OFFSET @offset)` +
		insightOrder(`i.`, column, descending, false)
}

// FindInsights implements assay.InsightStore.
func (s *Store) FindInsights(ctx context.Context, f assay.InsightFilter) ([]*assay.Insight, int, error) {
	column, ok := insightColumns[f.Sort]
	if !ok {
		return nil, 0, assay.Errorf(assay.CodeInvalid, "unknown sort field %q", string(f.Sort))
	}
	q := whereInsights(&f)
	var (
		found []*assay.Insight
		total int
	)
	err := s.read(ctx, "list insights",
		func(b *pgx.Batch) {
			b.Queue(q.total(), q.args).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
		},
		func(b *pgx.Batch) {
			found = nil
			part := paging.PartOf(f.Page, total)
			if part.Limit == 0 {
				return
			}
			args := maps.Clone(q.args)
			args["limit"], args["offset"] = part.Limit, part.Offset
			b.Queue(q.page(column, f.Descending, part.Reversed), args).Query(func(rows pgx.Rows) (err error) {
				found, err = pgx.AppendRows(make([]*assay.Insight, 0, part.Limit), rows, insightOf)
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
	return one(ctx, s, "find an insight", errNoInsight, insightOf, selectInsights+where, args...)
}

func errNoInsight() error { return assay.Errorf(assay.CodeInsightNotFound, "no such insight") }

// MuteInsight implements assay.InsightStore.
func (s *Store) MuteInsight(ctx context.Context, id, reason string) error {
	return s.update(ctx, "mute an insight", func(tx pgx.Tx) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE insights SET status = $1, mute_reason = $2, updated_at = greatest(updated_at, $3) WHERE id = $4`,
			codec.StatusMuted, reason, micros(now), uuidOf(id))
		return changedOne(tag, err, errNoInsight)
	})
}
