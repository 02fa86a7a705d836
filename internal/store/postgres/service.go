// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/paging"
)

// serviceColumns are what scanService reads, of services s and organizations o.
const serviceColumns = `s.id, o.id, s.namespace, s.name, s.environment, s.version,
	s.first_seen_at, s.last_seen_at, s.created_at, s.updated_at,
	s.score_id, s.score, s.score_evaluated, s.score_failed, s.score_at, s.score_window, s.score_created_at`

// scanService reads serviceColumns and what more there is in the row.
func scanService(row pgx.Row, svc *assay.Service, more ...any) error {
	var (
		id                       pgtype.UUID
		score                    pgtype.Float8
		evaluated, failed        pgtype.Int8
		at, window, scoreCreated pgtype.Int8
	)
	dest := []any{
		&svc.ID, &svc.OrganizationID, (*raw)(&svc.Namespace), (*raw)(&svc.Name), (*raw)(&svc.Environment), (*raw)(&svc.Version),
		(*instant)(&svc.FirstSeenAt), (*instant)(&svc.LastSeenAt), (*instant)(&svc.CreatedAt), (*instant)(&svc.UpdatedAt),
		&id, &score, &evaluated, &failed, &at, &window, &scoreCreated,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return err
	}
	if id.Valid {
		svc.Score = scoreOf(id, score.Float64, evaluated.Int64, failed.Int64, at.Int64, window.Int64, scoreCreated.Int64)
	}
	return nil
}

func serviceOf(row pgx.CollectableRow) (*assay.Service, error) {
	svc := new(assay.Service)
	return svc, scanService(row, svc)
}

func scoreOf(id pgtype.UUID, value float64, evaluated, failed, at, window, created int64) *assay.Score {
	return &assay.Score{
		ID:               idOf(id),
		Value:            value,
		EvaluatedRuleIDs: codec.RuleIDs(evaluated),
		FailedRuleIDs:    codec.RuleIDs(failed),
		CalculatedAt:     timeOf(at),
		Window:           time.Duration(window) * time.Microsecond,
		CreatedAt:        timeOf(created),
	}
}

// servicesPage is the statement for a page of the services of an organization. It
// takes the organization's row and id, a limit and an offset, and counts them from
// the end of the list where it is reversed; its rows come in the order of the list
// all the same.
func servicesPage(reversed bool) string {
	// As the index services_by_name begins.
	by := `substr(name, 1, 1024), name, environment, version, id`
	if reversed {
		by = `substr(name, 1, 1024) DESC, name DESC, environment DESC, version DESC, id DESC`
	}
	return `SELECT ` + serviceColumns + ` FROM services s, (SELECT $2::uuid AS id) AS o
		WHERE s.svc = ANY (ARRAY (SELECT svc FROM services WHERE org = $1 ORDER BY ` + by + ` LIMIT $3 OFFSET $4))
		ORDER BY s.name, s.environment, s.version, s.id`
}

// FindServices implements assay.ServiceStore.
func (s *Store) FindServices(ctx context.Context, organizationID string, page assay.Page) ([]*assay.Service, int, error) {
	var (
		found []*assay.Service
		org   int64
		total int
	)
	err := s.read(ctx, pages, "list services",
		func(b *pgx.Batch) {
			org, total = 0, 0
			b.Queue(`SELECT org, n FROM organizations JOIN service_counts USING (org) WHERE id = $1`, uuidOf(organizationID)).Query(func(rows pgx.Rows) error {
				_, err := pgx.ForEachRow(rows, []any{&org, &total}, func() error { return nil })
				return err
			})
		},
		func(b *pgx.Batch) {
			found = nil
			part := paging.PartOf(page, total)
			if part.Limit == 0 {
				return
			}
			b.Queue(servicesPage(part.Reversed), org, uuidOf(organizationID), part.Limit, part.Offset).Query(func(rows pgx.Rows) (err error) {
				found, err = pgx.AppendRows(make([]*assay.Service, 0, part.Limit), rows, serviceOf)
				return err
			})
		})
	if err != nil {
		return nil, 0, err
	}
	return found, total, nil
}

// FindServiceByID implements assay.ServiceStore.
func (s *Store) FindServiceByID(ctx context.Context, organizationID, id string) (*assay.Service, error) {
	return one(ctx, s, pages, "find a service", errNoService, serviceOf,
		`SELECT `+serviceColumns+` FROM services s JOIN organizations o ON o.org = s.org WHERE s.id = $1 AND o.id = $2`, uuidOf(id), uuidOf(organizationID))
}

func errNoService() error { return assay.Errorf(assay.CodeServiceNotFound, "no such service") }

// ScoreHistory returns the scores of a service since a time, oldest first. An id
// that is unknown or another organization's is CodeServiceNotFound.
func (s *Store) ScoreHistory(ctx context.Context, organizationID, serviceID string, since time.Time) ([]*assay.Score, error) {
	var scores []*assay.Score
	const service = `SELECT s.svc FROM services s JOIN organizations o ON o.org = s.org WHERE s.id = $1 AND o.id = $2`
	id, org := uuidOf(serviceID), uuidOf(organizationID)
	err := s.read(ctx, pages, "read a score history", func(b *pgx.Batch) {
		b.Queue(service, id, org).Query(func(rows pgx.Rows) error {
			_, err := pgx.CollectOneRow(rows, pgx.RowTo[int64])
			if errors.Is(err, pgx.ErrNoRows) {
				return errNoService()
			}
			return err
		})
		b.Queue(`SELECT id, score, evaluated, failed, calculated_at, span, created_at FROM scores
			WHERE svc = (`+service+`) AND calculated_at >= $3 ORDER BY calculated_at, id`, id, org, micros(since)).Query(func(rows pgx.Rows) (err error) {
			scores, err = pgx.CollectRows(rows, pointOf)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return scores, nil
}

// pointOf reads a row of the history of scores.
func pointOf(row pgx.CollectableRow) (*assay.Score, error) {
	var (
		id                                     pgtype.UUID
		value                                  float64
		evaluated, failed, at, window, created int64
	)
	err := row.Scan(&id, &value, &evaluated, &failed, &at, &window, &created)
	return scoreOf(id, value, evaluated, failed, at, window, created), err
}
