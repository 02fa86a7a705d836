// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"fmt"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
)

func errNoInsight() error { return assay.Errorf(assay.CodeInsightNotFound, "no such insight") }

// selectInsights selects the columns that scanInsight scans, of insights i. from holds the
// tables before them in the join, or is empty.
func (q *Queries) selectInsights(from string) string {
	e := q.sql.EvidenceOf
	return `SELECT i.id, o.id, i.rule, i.status, i.mute_reason, ` + e + `.trace_id, ` + e + `.telemetry_at, i.detected_at, i.created_at, ` + e + `.updated_at, ` + e + `.attributes,
		s.id, s.namespace, s.name, s.environment, s.version, s.first_seen_at, s.last_seen_at, s.created_at, s.updated_at
		FROM ` + from + `insights i` + q.sql.Evidence + ` JOIN services s ON s.svc = i.svc JOIN organizations o ON o.org = i.org `
}

func scanInsight(r Row) (*assay.Insight, error) {
	var (
		in           assay.Insight
		rule, status int64
		attributes   []byte
	)
	svc := &in.Service
	err := r.Scan((*ID)(&in.ID), (*ID)(&in.OrganizationID), &rule, &status, &in.MuteReason, &in.TraceID,
		(*Time)(&in.TelemetryAt), (*Time)(&in.DetectedAt), (*Time)(&in.CreatedAt), (*Time)(&in.UpdatedAt), &attributes,
		(*ID)(&svc.ID), (*Text)(&svc.Namespace), (*Text)(&svc.Name), (*Text)(&svc.Environment), (*Text)(&svc.Version),
		(*Time)(&svc.FirstSeenAt), (*Time)(&svc.LastSeenAt), (*Time)(&svc.CreatedAt), (*Time)(&svc.UpdatedAt))
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

// FindInsightByID implements assay.InsightStore.
func (q *Queries) FindInsightByID(ctx context.Context, organizationID, id string) (*assay.Insight, error) {
	where, args := `WHERE i.id = $1`, []any{ID(id)}
	if organizationID != "" {
		where, args = where+` AND o.id = $2`, append(args, ID(organizationID))
	}
	return one(ctx, q, connpool.Pages, "find an insight", errNoInsight, scanInsight, q.selectInsights(``)+where, args...)
}
