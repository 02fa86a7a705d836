// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/lane"
	"assay/internal/store/paging"
)

const selectInsights = `
SELECT i.id, o.id, i.rule, i.status, i.mute_reason, i.trace_id, i.telemetry_at, i.detected_at, i.created_at, i.updated_at, i.attributes,
	s.id, s.namespace, s.name, s.environment, s.version, s.first_seen_at, s.last_seen_at, s.created_at, s.updated_at
FROM insights i JOIN services s ON s.svc = i.svc JOIN organizations o ON o.org = i.org `

func scanInsight(row row) (*assay.Insight, error) {
	var (
		in                                      assay.Insight
		id, org, svc, attributes                []byte
		rule, status                            int64
		telemetry, detected, created, updated   int64
		first, last, serviceCreated, svcUpdated int64
	)
	err := row.Scan(&id, &org, &rule, &status, &in.MuteReason, &in.TraceID, &telemetry, &detected, &created, &updated, &attributes,
		&svc, &in.Service.Namespace, &in.Service.Name, &in.Service.Environment, &in.Service.Version, &first, &last, &serviceCreated, &svcUpdated)
	if err != nil {
		return nil, err
	}
	if in.Status, err = codec.InsightStatus(status); err != nil {
		return nil, err
	}
	in.ID, in.OrganizationID, in.Type = idOf(id), idOf(org), codec.InsightType(rule)
	in.TelemetryAt, in.DetectedAt, in.CreatedAt, in.UpdatedAt = timeOf(telemetry), timeOf(detected), timeOf(created), timeOf(updated)
	in.Service.ID, in.Service.OrganizationID = idOf(svc), in.OrganizationID
	in.Service.FirstSeenAt, in.Service.LastSeenAt = timeOf(first), timeOf(last)
	in.Service.CreatedAt, in.Service.UpdatedAt = timeOf(serviceCreated), timeOf(svcUpdated)
	if in.Attributes, err = codec.DecodeAttributes(attributes); err != nil {
		return nil, fmt.Errorf("insight %s: %w", in.ID, err)
	}
	return &in, nil
}

// order is how to sort by a field: the column, and the index that serves one
// organization in either direction. In both indexes ties are ordered by id
// ascending, so each of them serves its direction, and the reverse of it for pages
// that are read from the end of the list.
type order struct {
	column                string
	ascending, descending string
}

var insightOrder = map[assay.InsightSort]order{
	"":                   {"created_at", "insights_by_created_asc", "insights_by_created"},
	assay.SortCreatedAt:  {"created_at", "insights_by_created_asc", "insights_by_created"},
	assay.SortDetectedAt: {"detected_at", "insights_by_detected_asc", "insights_by_detected"},
	assay.SortUpdatedAt:  {"updated_at", "insights_by_updated_asc", "insights_by_updated"},
	assay.SortImpact:     {"weight", "insights_by_weight_asc", "insights_by_weight"},
	assay.SortSignal:     {"signal", "insights_by_signal", "insights_by_signal_desc"},
}

// terms are what insights are ordered by, each column with a prefix.
func (o order) terms(prefix string, descending, reversed bool) string {
	first, ties := ` ASC`, ` ASC`
	if descending != reversed {
		first = ` DESC`
	}
	if reversed {
		ties = ` DESC`
	}
	return prefix + o.column + first + `, ` + prefix + `id` + ties
}

// insightQuery is a filter as SQL. counted tells that insight_counts has all
// columns of the condition.
type insightQuery struct {
	where   []string
	args    []any
	counted bool
}

func (q *insightQuery) and(condition string, args ...any) {
	q.where = append(q.where, condition)
	q.args = append(q.args, args...)
}

func (q *insightQuery) in(column string, values []any) {
	q.and(column+` IN (?`+strings.Repeat(`, ?`, len(values)-1)+`)`, values...)
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
	q := &insightQuery{counted: true}
	if f.OrganizationID != "" {
		q.and(`org = (SELECT org FROM organizations WHERE id = ?)`, blobOf(f.OrganizationID))
	}
	if len(f.Statuses) > 0 {
		values := make([]any, len(f.Statuses))
		for i, st := range f.Statuses {
			values[i] = codec.StatusNumber(st)
		}
		q.in(`status`, values)
	}
	if f.Signal != "" {
		q.and(`signal = ?`, codec.SignalNumber(f.Signal))
	}
	if len(f.Impacts) > 0 {
		values := make([]any, len(f.Impacts))
		for i, im := range f.Impacts {
			values[i] = im.Weight()
		}
		q.in(`weight`, values)
	}
	if f.Type != "" {
		q.and(`rule = ?`, codec.TypeNumber(f.Type))
	}
	if f.ServiceID != "" {
		q.counted = false
		q.and(`svc = (SELECT svc FROM services WHERE id = ?)`, blobOf(f.ServiceID))
	}
	if !f.CreatedFrom.IsZero() {
		q.counted = false
		q.and(`created_at >= ?`, f.CreatedFrom.UnixMicro())
	}
	if !f.CreatedTo.IsZero() {
		q.counted = false
		q.and(`created_at <= ?`, f.CreatedTo.UnixMicro())
	}
	return q
}

// statements are what a filter asks the database. page takes a limit and an
// offset after the arguments of the filter, and counts them from the end of the
// list where it is reversed; its rows come in the order of the list all the same.
func (q *insightQuery) statements(f *assay.InsightFilter, by order, reversed bool) (total, page string) {
	index := by.ascending
	if f.Descending {
		index = by.descending
	}
	// The planner cannot know that a service has few insights and an organization many.
	found, counted := `insights`, `insights`
	switch {
	case f.ServiceID != "":
		found += ` INDEXED BY insights_by_service`
		counted = found
	case f.OrganizationID != "" && f.Type != "":
		found += ` INDEXED BY insights_by_type`
		counted = found
	case f.OrganizationID != "":
		found += ` INDEXED BY ` + index
		counted += ` INDEXED BY insights_by_created` // what is not counted beforehand is a span of time
	}
	total = `SELECT count(*) FROM ` + counted + q.String()
	if q.counted {
		total = `SELECT ifnull(sum(n), 0) FROM insight_counts` + q.String()
	}
	// The page is found in the index alone; rows are read for its insights only.
	page = selectInsights + `WHERE i.insight IN (SELECT insight FROM ` + found + q.String() + ` ORDER BY ` + by.terms(``, f.Descending, reversed) + limitOffset + `)
		ORDER BY ` + by.terms(`i.`, f.Descending, false)
	return total, page
}

// FindInsights implements assay.InsightStore.
func (s *Store) FindInsights(ctx context.Context, f assay.InsightFilter) ([]*assay.Insight, int, error) {
	by, ok := insightOrder[f.Sort]
	if !ok {
		return nil, 0, assay.Errorf(assay.CodeInvalid, "unknown sort field %q", string(f.Sort))
	}
	q := whereInsights(&f)
	var (
		found []*assay.Insight
		n     int
	)
	err := s.view(ctx, lane.Pages, "list insights", func(tx *sql.Tx) error {
		found = nil
		total, _ := q.statements(&f, by, false)
		if err := tx.QueryRowContext(ctx, total, q.args...).Scan(&n); err != nil {
			return err
		}
		part := paging.PartOf(f.Page, n)
		if part.Limit == 0 {
			return nil
		}
		found = make([]*assay.Insight, 0, part.Limit)
		_, page := q.statements(&f, by, part.Reversed)
		rows, err := tx.QueryContext(ctx, page, append(slices.Clone(q.args), part.Limit, part.Offset)...)
		return each(rows, err, func(rows *sql.Rows) error {
			in, err := scanInsight(rows)
			found = append(found, in)
			return err
		})
	})
	if err != nil {
		return nil, 0, err
	}
	return found, n, nil
}

// FindInsightByID implements assay.InsightStore.
func (s *Store) FindInsightByID(ctx context.Context, organizationID, id string) (*assay.Insight, error) {
	where, args := `WHERE i.id = ?`, []any{blobOf(id)}
	if organizationID != "" {
		where, args = where+` AND o.id = ?`, append(args, blobOf(organizationID))
	}
	return one(ctx, s, lane.Pages, "find an insight", errNoInsight, scanInsight, selectInsights+where, args...)
}

func errNoInsight() error { return assay.Errorf(assay.CodeInsightNotFound, "no such insight") }

// MuteInsight implements assay.InsightStore.
func (s *Store) MuteInsight(ctx context.Context, id, reason string) error {
	return s.update(ctx, lane.Pages, "mute an insight", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE insights SET status = ?, mute_reason = ?, updated_at = max(updated_at, ?) WHERE id = ?`,
			codec.StatusMuted, reason, micros(s.now()), blobOf(id))
		return changedOne(res, err, errNoInsight)
	})
}

// UnmuteInsight implements assay.InsightStore. The service counts as unscored
// afterwards, so the scorer looks at the insight again.
func (s *Store) UnmuteInsight(ctx context.Context, id string) error {
	return s.update(ctx, lane.Pages, "unmute an insight", func(tx *sql.Tx) error {
		var insight, svc, rule, status int64
		err := tx.QueryRowContext(ctx, `SELECT insight, svc, rule, status FROM insights WHERE id = ?`, blobOf(id)).Scan(&insight, &svc, &rule, &status)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoInsight()
		}
		if err != nil || status != codec.StatusMuted {
			return err
		}
		failing, err := failing(ctx, tx, svc, rule)
		if err != nil {
			return err
		}
		status = codec.StatusArchived
		if failing {
			status = codec.StatusActive
		}
		now := micros(s.now())
		_, err = tx.ExecContext(ctx, `UPDATE insights SET status = ?1, mute_reason = '', updated_at = max(updated_at, ?2),
			detected_at = iif(?1 = 1, ?2, detected_at) WHERE insight = ?3`, status, now, insight)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE services SET revision = revision + 1 WHERE svc = ?`, svc)
		return err
	})
}

// failing tells whether the window still holds a failure of a rule.
func failing(ctx context.Context, tx *sql.Tx, svc, number int64) (bool, error) {
	rule, ok := codec.RuleByNumber(number)
	if !ok {
		return false, nil
	}
	var blob []byte
	if err := tx.QueryRowContext(ctx, `SELECT tally FROM services WHERE svc = ?`, svc).Scan(&blob); err != nil {
		return false, err
	}
	var total codec.Tally
	if err := total.UnmarshalBinary(blob); err != nil {
		return false, err
	}
	if total.Counts[rule].Failed > 0 {
		return true, nil
	}
	var name, q string
	switch rule {
	case catalog.MET003, catalog.MET004:
		name, q = metricStart, contestedBy
	case catalog.RES002:
		name, q = windowStart, contestedBy
	case catalog.LOG001:
		name, q = windowStart, debuggedBy
	default:
		return false, nil
	}
	since, err := recall(ctx, tx, name)
	if err != nil {
		return false, err
	}
	var found bool
	err = tx.QueryRowContext(ctx, q, svc, number, since).Scan(&found)
	return found, err
}

// The failures that no count holds: of a service (?1) and rule (?2) since a
// bucket (?3). A value that another service gave counts, and LOG-001 allows
// DEBUG records on 14 days.
const (
	contestedBy = `SELECT EXISTS (
		SELECT 1 FROM claims c JOIN claims d ON d.org = c.org AND d.rule = c.rule AND d.key = c.key AND d.key_high = c.key_high AND d.value <> c.value AND d.last >= ?3
		WHERE c.svc = ?1 AND c.rule = ?2 AND c.last >= ?3)`
	debuggedBy = `SELECT count(*) > 14 FROM claims WHERE svc = ?1 AND rule = ?2 AND key = 2 AND last >= ?3`
)
