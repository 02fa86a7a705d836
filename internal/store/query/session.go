// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"time"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
)

func errNoSession() error { return assay.Errorf(assay.CodeNotFound, "no such session") }

// liveKey is the condition that the API key of a session is valid at a time. A session
// without a key always meets it.
func liveKey(id, org, at string) string {
	return `(` + id + ` = '' OR EXISTS (SELECT 1 FROM api_keys k WHERE k.id = ` + id + ` AND k.org = ` + org + ` AND ` + liveAPIKey(at) + `))`
}

const (
	deleteEnded = `DELETE FROM sessions WHERE org = $1 AND (idle_at <= $2 OR expires_at <= $2)`
	// Keep the last used sessions of a subject, and of an organization.
	boundSubject = `DELETE FROM sessions WHERE hash IN (
		SELECT hash FROM sessions WHERE org = $1 AND key_id = $2 AND subject = $3 ORDER BY used_at DESC, hash` + noLimit + ` OFFSET $4)`
	boundSessions = `DELETE FROM sessions WHERE hash IN (
		SELECT hash FROM sessions WHERE org = $1 ORDER BY used_at DESC, hash` + noLimit + ` OFFSET $2)`
	addSession = `INSERT INTO sessions (hash, org, key_id, subject, name, scopes, created_at, used_at, idle_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
)

// CreateSession implements assay.SessionStore.
func (q *Queries) CreateSession(ctx context.Context, ses *assay.Session) error {
	if !q.engine.Storable(ses.KeyID) || !q.engine.Storable(ses.Subject) {
		return assay.Errorf(assay.CodeInvalid, "the subject of a session is not UTF-8")
	}
	return q.engine.Update(ctx, connpool.Pages, "create a session", func(tx Tx) error {
		org, err := OrgOf(ctx, tx, ses.OrganizationID)
		if err != nil {
			return err
		}
		now, live := Micros(ses.UsedAt), false
		b := new(Batch)
		if q.sql.LockSessions != "" {
			b.Exec(q.sql.LockSessions, org)
		}
		b.Query(func(r Row) error { return r.Scan(&live) },
			`SELECT `+liveKey(`CAST($1 AS text)`, `CAST($2 AS bigint)`, `CAST($3 AS bigint)`), ses.KeyID, org, now)
		if err := tx.Send(ctx, b); err != nil {
			return err
		}
		if !live {
			return errNoAPIKey()
		}
		b = new(Batch)
		b.Exec(deleteEnded, org, now)
		b.Exec(boundSubject, org, ses.KeyID, ses.Subject, assay.MaxSubjectSessions-1)
		b.Exec(boundSessions, org, assay.MaxOrganizationSessions-1)
		b.Exec(addSession, ses.Hash[:], org, ses.KeyID, ses.Subject, Text(ses.Name), codec.JoinScopes(ses.Scopes),
			Micros(ses.CreatedAt), now, Micros(ses.IdleAt), Micros(ses.ExpiresAt))
		return q.conflict(tx.Send(ctx, b), "a session with this token exists")
	})
}

// FindSession implements assay.SessionStore.
func (q *Queries) FindSession(ctx context.Context, hash [32]byte, now time.Time) (*assay.Session, error) {
	scan := func(r Row) (*assay.Session, error) {
		ses := &assay.Session{Hash: hash}
		var scopes string
		err := r.Scan((*ID)(&ses.OrganizationID), &ses.KeyID, &ses.Subject, (*Text)(&ses.Name), &scopes,
			(*Time)(&ses.CreatedAt), (*Time)(&ses.UsedAt), (*Time)(&ses.IdleAt), (*Time)(&ses.ExpiresAt))
		ses.Scopes = codec.SplitScopes(scopes)
		return ses, err
	}
	return one(ctx, q, connpool.Pages, "find a session", errNoSession, scan,
		`SELECT o.id, s.key_id, s.subject, s.name, s.scopes, s.created_at, s.used_at, s.idle_at, s.expires_at
		FROM sessions s JOIN organizations o ON o.org = s.org
		WHERE s.hash = $1 AND s.idle_at > $2 AND s.expires_at > $2 AND `+liveKey(`s.key_id`, `s.org`, `$2`), hash[:], Micros(now))
}

// TouchSession implements assay.SessionStore.
func (q *Queries) TouchSession(ctx context.Context, hash [32]byte, usedAt, idleAt time.Time) error {
	return q.update(ctx, connpool.Pages, "note the use of a session", nil,
		`UPDATE sessions SET used_at = $1, idle_at = $2 WHERE hash = $3 AND used_at < $1`, Micros(usedAt), Micros(idleAt), hash[:])
}

// DeleteSession implements assay.SessionStore.
func (q *Queries) DeleteSession(ctx context.Context, hash [32]byte) error {
	return q.update(ctx, connpool.Pages, "end a session", nil, `DELETE FROM sessions WHERE hash = $1`, hash[:])
}

// DeleteSessions implements assay.SessionStore.
func (q *Queries) DeleteSessions(ctx context.Context, ses *assay.Session) (int, error) {
	if !q.engine.Storable(ses.KeyID) || !q.engine.Storable(ses.Subject) {
		return 0, nil
	}
	var n int64
	err := q.engine.Update(ctx, connpool.Pages, "end sessions", func(tx Tx) (err error) {
		n, err = exec(ctx, tx, `DELETE FROM sessions WHERE org = (SELECT org FROM organizations WHERE id = $1) AND key_id = $2 AND subject = $3`,
			ID(ses.OrganizationID), ses.KeyID, ses.Subject)
		return err
	})
	return result(int(n), err)
}
