// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/lane"
	"assay/internal/store/paging"
)

// serviceColumns are what scanService reads, of services s and organizations o.
const serviceColumns = `s.id, o.id, s.namespace, s.name, s.environment, s.version,
	s.first_seen_at, s.last_seen_at, s.created_at, s.updated_at,
	s.score_id, s.score, s.score_evaluated, s.score_failed, s.score_at, s.score_window, s.score_created_at`

// scanService reads serviceColumns and what more there is in the row.
func scanService(row row, svc *assay.Service, more ...any) error {
	var (
		id, org                      []byte
		first, last, created, update int64
		scoreID                      []byte
		score                        sql.NullFloat64
		evaluated, failed            sql.NullInt64
		at, window, scoreCreated     sql.NullInt64
	)
	dest := []any{
		&id, &org, &svc.Namespace, &svc.Name, &svc.Environment, &svc.Version,
		&first, &last, &created, &update,
		&scoreID, &score, &evaluated, &failed, &at, &window, &scoreCreated,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return err
	}
	svc.ID, svc.OrganizationID = idOf(id), idOf(org)
	svc.FirstSeenAt, svc.LastSeenAt, svc.CreatedAt, svc.UpdatedAt = timeOf(first), timeOf(last), timeOf(created), timeOf(update)
	if scoreID != nil {
		svc.Score = scoreOf(scoreID, score.Float64, evaluated.Int64, failed.Int64, at.Int64, window.Int64, scoreCreated.Int64)
	}
	return nil
}

func scoreOf(id []byte, value float64, evaluated, failed, at, window, created int64) *assay.Score {
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
// takes a limit and an offset, and counts them from the end of the list where it is
// reversed; its rows come in the order of the list all the same.
func servicesPage(reversed bool) string {
	by := `name, environment, version, id`
	if reversed {
		by = `name DESC, environment DESC, version DESC, id DESC`
	}
	// The page is found in the index alone; rows are read for its services only.
	return `SELECT ` + serviceColumns + ` FROM services s JOIN organizations o ON o.org = s.org
		WHERE s.svc IN (SELECT svc FROM services INDEXED BY services_by_name WHERE org = ? ORDER BY ` + by + limitOffset + `)
		ORDER BY s.name, s.environment, s.version, s.id`
}

// FindServices implements assay.ServiceStore.
func (s *Store) FindServices(ctx context.Context, organizationID string, page assay.Page) ([]*assay.Service, int, error) {
	var (
		found []*assay.Service
		total int
	)
	err := s.view(ctx, lane.Pages, "list services", func(tx *sql.Tx) error {
		found = nil
		org, err := orgOf(ctx, tx, organizationID)
		if assay.ErrorCode(err) == assay.CodeNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT ifnull(sum(n), 0) FROM service_counts WHERE org = ?`, org).Scan(&total); err != nil {
			return err
		}
		part := paging.PartOf(page, total)
		if part.Limit == 0 {
			return nil
		}
		found = make([]*assay.Service, 0, part.Limit)
		rows, err := tx.QueryContext(ctx, servicesPage(part.Reversed), org, part.Limit, part.Offset)
		return each(rows, err, func(rows *sql.Rows) error {
			svc := new(assay.Service)
			found = append(found, svc)
			return scanService(rows, svc)
		})
	})
	if err != nil {
		return nil, 0, err
	}
	return found, total, nil
}

// FindServiceByID implements assay.ServiceStore.
func (s *Store) FindServiceByID(ctx context.Context, organizationID, id string) (*assay.Service, error) {
	return one(ctx, s, lane.Pages, "find a service", errNoService, func(row row) (*assay.Service, error) {
		svc := new(assay.Service)
		return svc, scanService(row, svc)
	}, `SELECT `+serviceColumns+`
		FROM services s JOIN organizations o ON o.org = s.org WHERE s.id = ? AND o.id = ?`, blobOf(id), blobOf(organizationID))
}

func errNoService() error { return assay.Errorf(assay.CodeServiceNotFound, "no such service") }

// ScoreHistory returns the scores of a service since a time, oldest first. An id
// that is unknown or another organization's is CodeServiceNotFound.
func (s *Store) ScoreHistory(ctx context.Context, organizationID, serviceID string, since time.Time) ([]*assay.Score, error) {
	var scores []*assay.Score
	err := s.view(ctx, lane.Pages, "read a score history", func(tx *sql.Tx) error {
		scores = nil
		var svc int64
		err := tx.QueryRowContext(ctx, `SELECT s.svc FROM services s JOIN organizations o ON o.org = s.org WHERE s.id = ? AND o.id = ?`,
			blobOf(serviceID), blobOf(organizationID)).Scan(&svc)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoService()
		}
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT id, score, evaluated, failed, calculated_at, span, created_at FROM scores
			WHERE svc = ? AND calculated_at >= ? ORDER BY calculated_at, id`, svc, micros(since))
		return each(rows, err, func(rows *sql.Rows) error {
			var id []byte
			var value float64
			var evaluated, failed, at, window, created int64
			if err := rows.Scan(&id, &value, &evaluated, &failed, &at, &window, &created); err != nil {
				return err
			}
			scores = append(scores, scoreOf(id, value, evaluated, failed, at, window, created))
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return scores, nil
}
