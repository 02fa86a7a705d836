// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"time"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/lane"
)

// liveKey tells whether the API key of a session lives at a time. A session without
// a key has none that could end.
func liveKey(id, org, at string) string {
	return `(` + id + ` = '' OR EXISTS (SELECT 1 FROM api_keys k WHERE k.id = ` + id + ` AND k.org = ` + org + `
		AND k.revoked_at = 0 AND (k.expires_at = 0 OR k.expires_at > ` + at + `)))`
}

// CreateSession implements assay.SessionStore.
func (s *Store) CreateSession(ctx context.Context, ses *assay.Session) error {
	return s.update(ctx, lane.Pages, "create a session", func(tx *sql.Tx) error {
		org, err := orgOf(ctx, tx, ses.OrganizationID)
		if err != nil {
			return err
		}
		now := micros(ses.UsedAt)
		var live bool
		if err := tx.QueryRowContext(ctx, `SELECT `+liveKey(`?1`, `?2`, `?3`), ses.KeyID, org, now).Scan(&live); err != nil {
			return err
		}
		if !live {
			return errNoAPIKey()
		}
		for _, room := range []struct {
			sql  string
			args []any
		}{
			{`DELETE FROM sessions WHERE org = ? AND (idle_at <= ? OR expires_at <= ?)`, []any{org, now, now}},
			{
				`DELETE FROM sessions WHERE hash IN (
					SELECT hash FROM sessions WHERE org = ? AND key_id = ? AND subject = ? ORDER BY used_at DESC, hash LIMIT -1 OFFSET ?)`,
				[]any{org, ses.KeyID, ses.Subject, assay.MaxSubjectSessions - 1},
			},
			{
				`DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE org = ? ORDER BY used_at DESC, hash LIMIT -1 OFFSET ?)`,
				[]any{org, assay.MaxOrganizationSessions - 1},
			},
		} {
			if _, err := tx.ExecContext(ctx, room.sql, room.args...); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO sessions (hash, org, key_id, subject, name, scopes, created_at, used_at, idle_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, ses.Hash[:], org, ses.KeyID, ses.Subject, ses.Name, codec.JoinScopes(ses.Scopes),
			micros(ses.CreatedAt), now, micros(ses.IdleAt), micros(ses.ExpiresAt))
		if taken(err) {
			return assay.Errorf(assay.CodeConflict, "a session with this token exists")
		}
		return err
	})
}

// FindSession implements assay.SessionStore.
func (s *Store) FindSession(ctx context.Context, hash [32]byte, now time.Time) (*assay.Session, error) {
	missing := func() error { return assay.Errorf(assay.CodeNotFound, "no such session") }
	of := func(row row) (*assay.Session, error) {
		var (
			ses                          = assay.Session{Hash: hash}
			org                          []byte
			scopes                       string
			created, used, idle, expires int64
		)
		err := row.Scan(&org, &ses.KeyID, &ses.Subject, &ses.Name, &scopes, &created, &used, &idle, &expires)
		ses.OrganizationID, ses.Scopes = idOf(org), codec.SplitScopes(scopes)
		ses.CreatedAt, ses.UsedAt, ses.IdleAt, ses.ExpiresAt = timeOf(created), timeOf(used), timeOf(idle), timeOf(expires)
		return &ses, err
	}
	return one(ctx, s, lane.Pages, "find a session", missing, of, `SELECT o.id, s.key_id, s.subject, s.name, s.scopes, s.created_at, s.used_at, s.idle_at, s.expires_at
		FROM sessions s JOIN organizations o ON o.org = s.org
		WHERE s.hash = ?1 AND s.idle_at > ?2 AND s.expires_at > ?2 AND `+liveKey(`s.key_id`, `s.org`, `?2`),
		hash[:], micros(now))
}

// TouchSession implements assay.SessionStore.
func (s *Store) TouchSession(ctx context.Context, hash [32]byte, usedAt, idleAt time.Time) error {
	return s.update(ctx, lane.Pages, "note the use of a session", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET used_at = ?1, idle_at = ?2 WHERE hash = ?3 AND used_at < ?1`, micros(usedAt), micros(idleAt), hash[:])
		return err
	})
}

// DeleteSession implements assay.SessionStore.
func (s *Store) DeleteSession(ctx context.Context, hash [32]byte) error {
	return s.update(ctx, lane.Pages, "end a session", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE hash = ?`, hash[:])
		return err
	})
}

// DeleteSessions implements assay.SessionStore.
func (s *Store) DeleteSessions(ctx context.Context, ses *assay.Session) (int, error) {
	var n int64
	err := s.update(ctx, lane.Pages, "end sessions", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE org = (SELECT org FROM organizations WHERE id = ?) AND key_id = ? AND subject = ?`,
			blobOf(ses.OrganizationID), ses.KeyID, ses.Subject)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	return int(n), err
}
