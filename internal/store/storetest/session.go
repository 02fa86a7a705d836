// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
)

// newSession is a session of a provider's user with a token of its own.
func newSession(org, token string, now time.Time) *assay.Session {
	return &assay.Session{
		Hash: sha256.Sum256([]byte(token)), OrganizationID: org, Subject: "user-1", Name: "Ada \x00 Example",
		Scopes:    []assay.Scope{assay.ScopeRead, assay.ScopeAgent},
		CreatedAt: micro(now), UsedAt: micro(now), IdleAt: micro(now.Add(8 * time.Hour)), ExpiresAt: micro(now.Add(7 * 24 * time.Hour)),
	}
}

// keySession is a session of an API key, which it creates.
func (s *suite) keySession(org, keyID string, expires time.Time) *assay.Session {
	s.t.Helper()
	k := &assay.APIKey{ID: keyID, OrganizationID: org, Name: keyID, Scopes: assay.Scopes(), ExpiresAt: expires}
	require.NoError(s.t, s.CreateAPIKey(s.ctx(), k, assay.APIKeyLimits{}))
	ses := newSession(org, "of "+keyID, s.clock.now())
	ses.Subject, ses.KeyID, ses.Scopes = "key:"+keyID, keyID, k.Scopes
	return ses
}

func (s *suite) TestSessions(t *testing.T) {
	ctx, now := s.ctx(), s.clock.now()
	org, other := s.organization(), s.organization()
	a := newSession(org, "a", now)
	require.NoError(t, s.CreateSession(ctx, a))
	require.Equal(t, a, must(s.FindSession(ctx, a.Hash, now))(t))
	code(t, assay.CodeConflict, s.CreateSession(ctx, newSession(other, "a", now)))
	code(t, assay.CodeNotFound, s.CreateSession(ctx, newSession(unknownID, "b", now)))
	code(t, assay.CodeNotFound, errOf(s.FindSession(ctx, [32]byte{1}, now)))

	// A session ends when it is idle, even shortly before its maximum life.
	for _, at := range []time.Time{a.IdleAt, a.IdleAt.Add(time.Hour), a.ExpiresAt} {
		code(t, assay.CodeNotFound, errOf(s.FindSession(ctx, a.Hash, at)))
	}
	used := now.Add(7 * time.Hour)
	require.NoError(t, s.TouchSession(ctx, a.Hash, used, used.Add(400*24*time.Hour)))
	require.NoError(t, s.TouchSession(ctx, a.Hash, now, now.Add(time.Hour)), "an older use")
	require.NoError(t, s.TouchSession(ctx, [32]byte{1}, used, used))
	got := must(s.FindSession(ctx, a.Hash, a.ExpiresAt.Add(-time.Microsecond)))(t)
	require.Equal(t, micro(used), got.UsedAt)
	require.Equal(t, micro(used.Add(400*24*time.Hour)), got.IdleAt)
	code(t, assay.CodeNotFound, errOf(s.FindSession(ctx, a.Hash, a.ExpiresAt)))

	require.NoError(t, s.DeleteSession(ctx, a.Hash))
	require.NoError(t, s.DeleteSession(ctx, a.Hash))
	code(t, assay.CodeNotFound, errOf(s.FindSession(ctx, a.Hash, now)))
}

// TestSessionKeys: a session ends with its API key.
func (s *suite) TestSessionKeys(t *testing.T) {
	ctx, now := s.ctx(), s.clock.now()
	org, other := s.organization(), s.organization()
	revoked := s.keySession(org, "aaaaaa", time.Time{})
	expiring := s.keySession(org, "bbbbbb", now.Add(time.Hour))
	foreign := s.keySession(other, "cccccc", time.Time{})
	for _, ses := range []*assay.Session{revoked, expiring, foreign} {
		require.NoError(t, s.CreateSession(ctx, ses))
		require.Equal(t, ses, must(s.FindSession(ctx, ses.Hash, now))(t))
	}
	require.NoError(t, s.RevokeAPIKey(ctx, "aaaaaa"))
	code(t, assay.CodeNotFound, errOf(s.FindSession(ctx, revoked.Hash, now)))
	require.NoError(t, errOf(s.FindSession(ctx, expiring.Hash, now.Add(59*time.Minute))))
	code(t, assay.CodeNotFound, errOf(s.FindSession(ctx, expiring.Hash, now.Add(time.Hour))))

	// A session cannot begin with a key that is revoked, unknown or another organization's.
	for _, ses := range []*assay.Session{revoked, foreign, newSession(org, "d", now)} {
		again := *ses
		again.OrganizationID, again.Hash = org, sha256.Sum256([]byte("again "+ses.KeyID))
		again.KeyID = cmp.Or(again.KeyID, "dddddd")
		code(t, assay.CodeNotFound, s.CreateSession(ctx, &again))
	}
	again := *expiring
	again.Hash, again.UsedAt = sha256.Sum256([]byte("again")), micro(now.Add(time.Hour))
	code(t, assay.CodeNotFound, s.CreateSession(ctx, &again))
}

func (s *suite) TestSessionLimits(t *testing.T) {
	ctx, now := s.ctx(), s.clock.now()
	org, other := s.organization(), s.organization()
	var all []*assay.Session
	for i := range assay.MaxSubjectSessions {
		ses := newSession(org, fmt.Sprint("session ", i), now.Add(time.Duration(i)*time.Second))
		require.NoError(t, s.CreateSession(ctx, ses))
		all = append(all, ses)
	}
	same := newSession(other, "of another organization", now)
	require.NoError(t, s.CreateSession(ctx, same))
	key := s.keySession(org, "aaaaaa", time.Time{})
	require.NoError(t, s.CreateSession(ctx, key))
	likeKey := newSession(org, "whose subject looks like a key's", now)
	likeKey.Subject = key.Subject
	require.NoError(t, s.CreateSession(ctx, likeKey))
	live := func(want bool, sessions ...*assay.Session) {
		t.Helper()
		for _, ses := range sessions {
			_, err := s.FindSession(ctx, ses.Hash, now)
			require.Equal(t, want, err == nil, "%v", err)
		}
	}
	live(true, all...)

	// One session beyond the limit deletes the least recently used one.
	late := now.Add(time.Hour)
	require.NoError(t, s.TouchSession(ctx, all[0].Hash, late, late.Add(time.Hour)))
	more := newSession(org, "one more", late)
	require.NoError(t, s.CreateSession(ctx, more))
	live(false, all[1])
	live(true, all[0], all[2], more, same, key, likeKey)

	// Sign a user out of all sessions of one organization.
	require.Equal(t, assay.MaxSubjectSessions, must(s.DeleteSessions(ctx, more))(t))
	live(false, append(all, more)...)
	live(true, same, key, likeKey)
	require.Equal(t, 1, must(s.DeleteSessions(ctx, key))(t))
	live(false, key)
	live(true, same, likeKey)
	require.Zero(t, must(s.DeleteSessions(ctx, newSession(unknownID, "", now)))(t))

	// The external id ends the sessions of users, and not those of API keys or of other organizations.
	user, byKey := newSession(org, "a user", now), s.keySession(org, "bbbbbb", time.Time{})
	require.NoError(t, s.CreateSession(ctx, user))
	require.NoError(t, s.CreateSession(ctx, byKey))
	require.NoError(t, s.SetOrganizationExternalID(ctx, org, "customer-8"))
	live(false, user)
	live(true, same, byKey)

	// Ended sessions are deleted.
	before := s.rows()["sessions"]
	s.clock.advance(9 * time.Hour)
	s.expire(bucket(epoch.Add(-720*time.Hour)), delta.Bucket(0))
	require.Less(t, s.rows()["sessions"], before)
	require.Zero(t, s.rows()["sessions"])
}

// TestSessionRace creates sessions concurrently.
func (s *suite) TestSessionRace(t *testing.T) {
	ctx, now := s.ctx(), s.clock.now()
	org := s.organization()
	s.race(2*assay.MaxSubjectSessions, "", func(i int, st Store) (bool, error) {
		return true, st.CreateSession(ctx, newSession(org, fmt.Sprint("racer ", i), now))
	})
	require.Equal(t, assay.MaxSubjectSessions, must(s.DeleteSessions(ctx, newSession(org, "", now)))(t))
}
