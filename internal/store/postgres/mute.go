// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
)

// setStatus gives an insight a status at a time, and a time at which it was detected
// unless that is NULL.
const setStatus = `WITH i AS (UPDATE insights SET status = $2, mute_reason = $3, detected_at = coalesce($5, detected_at) WHERE id = $1 RETURNING svc, rule)
	UPDATE evidence e SET status = $2, updated_at = greatest(e.updated_at, $4) FROM i WHERE e.svc = i.svc AND e.rule = i.rule`

// lockInsight locks the service of an insight, and so the insight, and reads it.
func lockInsight(ctx context.Context, tx pgx.Tx, id string) (svc, rule, status int64, err error) {
	err = tx.QueryRow(ctx, `SELECT svc FROM services WHERE svc = (SELECT svc FROM insights WHERE id = $1) FOR NO KEY UPDATE`, uuidOf(id)).Scan(&svc)
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT rule, status FROM insights WHERE id = $1`, uuidOf(id)).Scan(&rule, &status)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = errNoInsight()
	}
	return svc, rule, status, err
}

// MuteInsight implements assay.InsightStore.
func (s *Store) MuteInsight(ctx context.Context, id, reason string) error {
	return s.update(ctx, pages, "mute an insight", func(tx pgx.Tx) error {
		if _, _, _, err := lockInsight(ctx, tx, id); err != nil {
			return err
		}
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, setStatus, uuidOf(id), codec.StatusMuted, reason, micros(now), nil)
		return err
	})
}

// UnmuteInsight implements assay.InsightStore. The service counts as unscored
// afterwards, so the scorer looks at the insight again.
func (s *Store) UnmuteInsight(ctx context.Context, id string) error {
	return s.update(ctx, pages, "unmute an insight", func(tx pgx.Tx) error {
		svc, rule, status, err := lockInsight(ctx, tx, id)
		if err != nil || status != codec.StatusMuted {
			return err
		}
		failing, err := failing(ctx, tx, svc, rule)
		if err != nil {
			return err
		}
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		var detected *int64
		status = codec.StatusArchived
		if failing {
			at := micros(now)
			status, detected = codec.StatusActive, &at
		}
		if _, err := tx.Exec(ctx, setStatus, uuidOf(id), status, "", micros(now), detected); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE services SET revision = revision + 1, unscored = true WHERE svc = $1`, svc)
		return err
	})
}

// failing tells whether the window still holds a failure of a rule.
func failing(ctx context.Context, tx pgx.Tx, svc, number int64) (bool, error) {
	rule, ok := codec.RuleByNumber(number)
	if !ok {
		return false, nil
	}
	var blob []byte
	if err := tx.QueryRow(ctx, `SELECT tally FROM services WHERE svc = $1`, svc).Scan(&blob); err != nil {
		return false, err
	}
	var total codec.Tally
	if err := total.UnmarshalBinary(blob); err != nil {
		return false, err
	}
	if total.Counts[rule].Failed > 0 {
		return true, nil
	}
	var name, query string
	switch rule {
	case catalog.MET003, catalog.MET004:
		name, query = metricStart, contestedBy
	case catalog.RES002:
		name, query = windowStart, contestedBy
	case catalog.LOG001:
		name, query = windowStart, debuggedBy
	default:
		return false, nil
	}
	since, err := recall(ctx, tx, name)
	if err != nil {
		return false, err
	}
	var found bool
	err = tx.QueryRow(ctx, query, svc, number, since).Scan(&found)
	return found, err
}

// The failures that no count holds: of a service ($1) and rule ($2) since a
// bucket ($3). A value that another service gave counts, and LOG-001 allows
// DEBUG records on 14 days.
const (
	contestedBy = `SELECT EXISTS (
		SELECT 1 FROM claims c JOIN claims d ON d.org = c.org AND d.rule = c.rule AND d.key = c.key AND d.key_high = c.key_high AND d.value <> c.value AND d.last >= $3
		WHERE c.svc = $1 AND c.rule = $2 AND c.last >= $3)`
	debuggedBy = `SELECT count(*) > 14 FROM claims WHERE svc = $1 AND rule = $2 AND key = 2 AND last >= $3`
)
