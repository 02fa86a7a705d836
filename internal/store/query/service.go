// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
)

func errNoService() error { return assay.Errorf(assay.CodeServiceNotFound, "no such service") }

// serviceColumns are the columns that scanService reads, of services s and organizations
// o.
const serviceColumns = `s.id, o.id, s.namespace, s.name, s.environment, s.version,
	s.first_seen_at, s.last_seen_at, s.created_at, s.updated_at,
	s.score_id, s.score, s.score_evaluated, s.score_failed, s.score_at, s.score_window, s.score_created_at`

// scanService reads serviceColumns, and the columns after them into more.
func scanService(r Row, svc *assay.Service, more ...any) error {
	var score scoreColumns
	dest := make([]any, 0, 24)
	dest = append(dest,
		(*ID)(&svc.ID), (*ID)(&svc.OrganizationID), (*Text)(&svc.Namespace), (*Text)(&svc.Name), (*Text)(&svc.Environment), (*Text)(&svc.Version),
		(*Time)(&svc.FirstSeenAt), (*Time)(&svc.LastSeenAt), (*Time)(&svc.CreatedAt), (*Time)(&svc.UpdatedAt),
		&score.id, &score.value, &score.evaluated, &score.failed, &score.at, &score.window, &score.created)
	err := r.Scan(append(dest, more...)...)
	svc.Score = score.score()
	return err
}

// scoreColumns are the columns of a score. All are NULL for a service without one.
type scoreColumns struct {
	id                        ID
	value                     pgtype.Float8
	evaluated, failed, window pgtype.Int8
	at, created               Time
}

func (c *scoreColumns) score() *assay.Score {
	if c.id == "" {
		return nil
	}
	return &assay.Score{
		ID: string(c.id), Value: c.value.Float64, EvaluatedRuleIDs: codec.RuleIDs(c.evaluated.Int64), FailedRuleIDs: codec.RuleIDs(c.failed.Int64),
		CalculatedAt: time.Time(c.at), Window: time.Duration(c.window.Int64) * time.Microsecond, CreatedAt: time.Time(c.created),
	}
}

func serviceOf(r Row) (*assay.Service, error) {
	svc := new(assay.Service)
	return svc, scanService(r, svc)
}

// FindServiceByID implements assay.ServiceStore.
func (q *Queries) FindServiceByID(ctx context.Context, organizationID, id string) (*assay.Service, error) {
	return one(ctx, q, connpool.Pages, "find a service", errNoService, serviceOf, `SELECT `+serviceColumns+` FROM services s JOIN organizations o ON o.org = s.org WHERE s.id = $1 AND o.id = $2`, ID(id), ID(organizationID))
}

// ScoreHistory returns the scores of a service since a time, oldest first. An id that is
// unknown or belongs to another organization is CodeServiceNotFound.
func (q *Queries) ScoreHistory(ctx context.Context, organizationID, serviceID string, since time.Time) ([]*assay.Score, error) {
	var (
		exists bool
		scores []*assay.Score
	)
	err := q.engine.View(ctx, connpool.Pages, "read a score history", func(b *Batch) {
		exists, scores = false, nil
		b.Query(func(r Row) error {
			exists = true
			var c scoreColumns
			err := r.Scan(&c.id, &c.value, &c.evaluated, &c.failed, &c.at, &c.window, &c.created)
			if s := c.score(); s != nil {
				scores = append(scores, s)
			}
			return err
		}, `SELECT c.id, c.score, c.evaluated, c.failed, c.calculated_at, c.span, c.created_at
			FROM services s JOIN organizations o ON o.org = s.org LEFT JOIN scores c ON c.svc = s.svc AND c.calculated_at >= $3
			WHERE s.id = $1 AND o.id = $2 ORDER BY c.calculated_at, c.id`, ID(serviceID), ID(organizationID), Micros(since))
	})
	if err == nil && !exists {
		err = errNoService()
	}
	return result(scores, err)
}

// KnownServices returns the keys of the services of an organization.
func (q *Queries) KnownServices(ctx context.Context, organizationID string) ([]assay.ServiceKey, error) {
	return list(ctx, q, connpool.Loads, "list known services", func(r Row) (k assay.ServiceKey, err error) {
		err = r.Scan((*Text)(&k.Namespace), (*Text)(&k.Name), (*Text)(&k.Environment), (*Text)(&k.Version))
		return k, err
	}, `SELECT namespace, name, environment, version FROM services WHERE org = (SELECT org FROM organizations WHERE id = $1)`, ID(organizationID))
}
