// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"assay"
	"assay/internal/store/codec"
)

// liveKey tells whether the API key of a session lives at a time. A session without
// a key has none that could end.
func liveKey(id, org, at string) string {
	return `(` + id + ` = '' OR EXISTS (SELECT FROM api_keys k WHERE k.id = ` + id + ` AND k.org = ` + org + `
		AND k.revoked_at = 0 AND (k.expires_at = 0 OR k.expires_at > ` + at + `)))`
}

const (
	// One at a time for each organization, so that the limits hold.
	lockSessions = `SELECT pg_advisory_xact_lock(hashtextextended('sessions', $1))`
	forgetEnded  = `DELETE FROM sessions WHERE org = $1 AND (idle_at <= $2 OR expires_at <= $2)`
	// All but the $4 used last of a subject.
	boundSubject = `DELETE FROM sessions WHERE hash IN (
		SELECT hash FROM sessions WHERE org = $1 AND key_id = $2 AND subject = $3 ORDER BY used_at DESC, hash OFFSET $4)`
	boundSessions = `DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE org = $1 ORDER BY used_at DESC, hash OFFSET $2)`
	addSession    = `INSERT INTO sessions (hash, org, key_id, subject, name, scopes, created_at, used_at, idle_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
)

// CreateSession implements assay.SessionStore.
func (s *Store) CreateSession(ctx context.Context, ses *assay.Session) error {
	if !storable(ses.KeyID) || !storable(ses.Subject) {
		return assay.Errorf(assay.CodeInvalid, "the subject of a session is not UTF-8")
	}
	return s.update(ctx, pages, "create a session", func(tx pgx.Tx) error {
		org, err := orgOf(ctx, tx, ses.OrganizationID)
		if err != nil {
			return err
		}
		now := micros(ses.UsedAt)
		live := false
		b := new(pgx.Batch)
		b.Queue(lockSessions, org)
		b.Queue(`SELECT `+liveKey(`$1::text`, `$2::bigint`, `$3::bigint`), ses.KeyID, org, now).QueryRow(func(row pgx.Row) error { return row.Scan(&live) })
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if !live {
			return errNoAPIKey()
		}
		b = new(pgx.Batch)
		b.Queue(forgetEnded, org, now)
		b.Queue(boundSubject, org, ses.KeyID, ses.Subject, assay.MaxSubjectSessions-1)
		b.Queue(boundSessions, org, assay.MaxOrganizationSessions-1)
		b.Queue(addSession, ses.Hash[:], org, ses.KeyID, ses.Subject, bytesOf(ses.Name), codec.JoinScopes(ses.Scopes),
			micros(ses.CreatedAt), now, micros(ses.IdleAt), micros(ses.ExpiresAt))
		err = tx.SendBatch(ctx, b).Close()
		if taken(err) {
			return assay.Errorf(assay.CodeConflict, "a session with this token exists")
		}
		return err
	})
}

// FindSession implements assay.SessionStore.
func (s *Store) FindSession(ctx context.Context, hash [32]byte, now time.Time) (*assay.Session, error) {
	of := func(row pgx.CollectableRow) (*assay.Session, error) {
		ses := &assay.Session{Hash: hash}
		var scopes string
		err := row.Scan(&ses.OrganizationID, &ses.KeyID, &ses.Subject, (*raw)(&ses.Name), &scopes,
			(*instant)(&ses.CreatedAt), (*instant)(&ses.UsedAt), (*instant)(&ses.IdleAt), (*instant)(&ses.ExpiresAt))
		ses.Scopes = codec.SplitScopes(scopes)
		return ses, err
	}
	missing := func() error { return assay.Errorf(assay.CodeNotFound, "no such session") }
	return one(ctx, s, pages, "find a session", missing, of,
		`SELECT o.id, s.key_id, s.subject, s.name, s.scopes, s.created_at, s.used_at, s.idle_at, s.expires_at
		FROM sessions s JOIN organizations o ON o.org = s.org
		WHERE s.hash = $1 AND s.idle_at > $2 AND s.expires_at > $2 AND `+liveKey(`s.key_id`, `s.org`, `$2`), hash[:], micros(now))
}

// TouchSession implements assay.SessionStore.
func (s *Store) TouchSession(ctx context.Context, hash [32]byte, usedAt, idleAt time.Time) error {
	return s.update(ctx, pages, "note the use of a session", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE sessions SET used_at = $1, idle_at = $2 WHERE hash = $3 AND used_at < $1`, micros(usedAt), micros(idleAt), hash[:])
		return err
	})
}

// DeleteSession implements assay.SessionStore.
func (s *Store) DeleteSession(ctx context.Context, hash [32]byte) error {
	return s.update(ctx, pages, "end a session", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM sessions WHERE hash = $1`, hash[:])
		return err
	})
}

// DeleteSessions implements assay.SessionStore.
func (s *Store) DeleteSessions(ctx context.Context, ses *assay.Session) (int, error) {
	if !storable(ses.KeyID) || !storable(ses.Subject) {
		return 0, nil
	}
	n := 0
	err := s.update(ctx, pages, "end sessions", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM sessions WHERE org = (SELECT org FROM organizations WHERE id = $1) AND key_id = $2 AND subject = $3`,
			uuidOf(ses.OrganizationID), ses.KeyID, ses.Subject)
		n = int(tag.RowsAffected())
		return err
	})
	return n, err
}
