// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/auth"
	"assay/internal/store/sqlite"
)

func TestKeyManager(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	store, err := sqlite.Open(t.Context(), sqlite.Config{Now: clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	orgs := make([]string, 2)
	for i := range orgs {
		o := &assay.Organization{Name: fmt.Sprint("org ", i), Tier: assay.TierFree}
		require.NoError(t, store.CreateOrganization(t.Context(), o))
		orgs[i] = o.ID
	}
	var log bytes.Buffer
	m := &auth.KeyManager{Store: store, Prefix: "assay", Now: clock, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	forms := 0
	form := func() string { forms++; return fmt.Sprint(forms) }
	admin := &assay.Session{OrganizationID: orgs[0], Subject: "key:aaaaaa", Scopes: assay.Scopes()}
	narrow := &assay.Session{OrganizationID: orgs[0], Subject: "key:bbbbbb", Scopes: []assay.Scope{assay.ScopeRead, assay.ScopeAdmin}}
	reader := &assay.Session{OrganizationID: orgs[0], Subject: "user", Scopes: assay.DefaultScopes()}
	foreign := &assay.Session{OrganizationID: orgs[1], Subject: "key:cccccc", Scopes: assay.Scopes()}
	read, ingest := []assay.Scope{assay.ScopeRead}, []assay.Scope{assay.ScopeIngest}

	k, secret, err := m.CreateKey(t.Context(), admin, form(), "for <the> shop", []assay.Scope{assay.ScopeIngest, assay.ScopeRead, assay.ScopeIngest}, time.Hour)
	require.NoError(t, err)
	stored, err := store.FindAPIKey(t.Context(), k.ID)
	require.NoError(t, err)
	require.Equal(t, k, stored)
	require.Equal(t, []assay.Scope{assay.ScopeRead, assay.ScopeIngest}, k.Scopes)
	require.Equal(t, now.Add(time.Hour), k.ExpiresAt)
	require.Equal(t, orgs[0], k.OrganizationID)
	a := &auth.Authenticator{Keys: store, Prefix: "assay", Now: clock}
	t.Cleanup(a.Close)
	who, err := a.Authenticate(t.Context(), "Bearer "+secret, "127.0.0.1:1")
	require.NoError(t, err)
	require.Equal(t, orgs[0], who.OrganizationID)

	for name, tc := range map[string]struct {
		by     *assay.Session
		name   string
		scopes []assay.Scope
		in     time.Duration
		want   assay.Code
	}{
		"no admin":          {reader, "x", read, 0, assay.CodeForbidden},
		"wider":             {narrow, "x", ingest, 0, assay.CodeForbidden},
		"partly wider":      {narrow, "x", assay.Scopes(), 0, assay.CodeForbidden},
		"no organization":   {&assay.Session{Scopes: assay.Scopes()}, "x", read, 0, assay.CodeForbidden},
		"unknown scope":     {admin, "x", []assay.Scope{"root"}, 0, assay.CodeInvalid},
		"joined scopes":     {admin, "x", []assay.Scope{"read,admin"}, 0, assay.CodeInvalid},
		"no scope":          {admin, "x", nil, 0, assay.CodeInvalid},
		"no name":           {admin, " \t", read, 0, assay.CodeInvalid},
		"long name":         {admin, strings.Repeat("x", 101), read, 0, assay.CodeInvalid},
		"long in UTF-16":    {admin, strings.Repeat("\U0001F511", 51), read, 0, assay.CodeInvalid},
		"name not UTF-8":    {admin, "a\xff", read, 0, assay.CodeInvalid},
		"name with a NUL":   {admin, "a\x00", read, 0, assay.CodeInvalid},
		"ends before begin": {admin, "x", read, -time.Hour, assay.CodeInvalid},
	} {
		_, secret, err := m.CreateKey(t.Context(), tc.by, form(), tc.name, tc.scopes, tc.in)
		require.Equal(t, tc.want, assay.ErrorCode(err), name)
		require.Empty(t, secret)
	}
	for _, once := range []string{"", strings.Repeat("x", 65)} {
		_, _, err := m.CreateKey(t.Context(), admin, once, "x", read, 0)
		require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err))
	}
	_, _, err = m.CreateKey(t.Context(), narrow, form(), strings.Repeat("\U0001F511", 50), []assay.Scope{assay.ScopeRead, assay.ScopeAdmin}, 0)
	require.NoError(t, err)

	list := func(s *assay.Session) (names []string) {
		t.Helper()
		page, err := m.FindKeys(t.Context(), s, assay.Page{Limit: 10})
		require.NoError(t, err)
		for _, k := range page.Keys {
			names = append(names, k.Name)
		}
		return names
	}
	require.ElementsMatch(t, []string{"for <the> shop", strings.Repeat("\U0001F511", 50)}, list(admin))
	require.Empty(t, list(foreign))
	for _, who := range []*assay.Session{reader, {Scopes: assay.Scopes()}} {
		_, err := m.FindKeys(t.Context(), who, assay.Page{Limit: 10})
		require.Equal(t, assay.CodeForbidden, assay.ErrorCode(err), "who only reads sees no keys")
		_, err = m.FindKey(t.Context(), who, k.ID)
		require.Equal(t, assay.CodeForbidden, assay.ErrorCode(err))
	}
	_, err = m.FindKey(t.Context(), foreign, k.ID)
	require.Equal(t, assay.CodeNotFound, assay.ErrorCode(err))

	require.Equal(t, assay.CodeForbidden, assay.ErrorCode(m.RevokeKey(t.Context(), reader, k.ID)))
	require.Equal(t, assay.CodeNotFound, assay.ErrorCode(m.RevokeKey(t.Context(), foreign, k.ID)))
	require.Equal(t, assay.CodeNotFound, assay.ErrorCode(m.RevokeKey(t.Context(), admin, "zzzzzz")))
	stored, err = store.FindAPIKey(t.Context(), k.ID)
	require.NoError(t, err)
	require.Zero(t, stored.RevokedAt)
	require.NoError(t, m.RevokeKey(t.Context(), admin, k.ID))
	now = now.Add(5 * time.Second)
	_, err = a.Authenticate(t.Context(), "Bearer "+secret, "127.0.0.1:1")
	require.Equal(t, assay.CodeInvalidAPIKey, assay.ErrorCode(err))

	require.NotContains(t, log.String(), secret)
	require.NotContains(t, log.String(), secret[len(secret)-32:])
	require.Contains(t, log.String(), k.ID)
	require.Equal(t, 3, strings.Count(log.String(), "\n"), "two made, one revoked:\n%s", log.String())
}

// TestOneFormMakesOneKey sends a form twice, and eight times at once.
func TestOneFormMakesOneKey(t *testing.T) {
	store, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	o := &assay.Organization{Name: "one", Tier: assay.TierFree}
	require.NoError(t, store.CreateOrganization(t.Context(), o))
	m := &auth.KeyManager{Store: store, Prefix: "assay", Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	s := &assay.Session{Hash: [32]byte{1}, OrganizationID: o.ID, Scopes: assay.Scopes()}
	send := func(s *assay.Session, once string) error {
		_, _, err := m.CreateKey(t.Context(), s, once, "for "+once, []assay.Scope{assay.ScopeRead}, 0)
		return err
	}
	require.NoError(t, send(s, "1"))
	err = send(s, "1")
	require.Equal(t, assay.CodeConflict, assay.ErrorCode(err))
	require.ErrorContains(t, err, "for 1")
	require.NoError(t, send(&assay.Session{Hash: [32]byte{2}, OrganizationID: o.ID, Scopes: assay.Scopes()}, "1"), "another session's form")
	errs := [8]error{}
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = send(s, "2") })
	}
	all.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
			continue
		}
		require.Equal(t, assay.CodeConflict, assay.ErrorCode(err))
	}
	require.Equal(t, 1, made)
	page, err := m.FindKeys(t.Context(), s, assay.Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, 3, page.Total)
}

// crowded is a store whose first ids are other organizations', with many keys.
type crowded struct {
	assay.APIKeyStore
	taken, live int
}

func (c *crowded) FindAPIKeyPage(context.Context, string, time.Time, assay.Page) (*assay.APIKeyPage, error) {
	return &assay.APIKeyPage{Live: c.live, Total: c.live}, nil
}

func (c *crowded) FindAPIKey(context.Context, string) (*assay.APIKey, error) {
	return &assay.APIKey{OrganizationID: "another"}, nil
}

func (c *crowded) CreateAPIKey(context.Context, *assay.APIKey) error {
	if c.taken--; c.taken >= 0 {
		return assay.Errorf(assay.CodeConflict, "taken")
	}
	return nil
}

func TestKeyManagerCrowded(t *testing.T) {
	s := &assay.Session{OrganizationID: "org", Scopes: assay.Scopes()}
	for _, tc := range []struct {
		store crowded
		want  assay.Code
	}{
		{crowded{taken: 4, live: auth.MaxLiveKeys - 1}, ""},
		{crowded{taken: 5}, assay.CodeConflict},
		{crowded{live: auth.MaxLiveKeys}, assay.CodeConflict},
	} {
		m := &auth.KeyManager{Store: &tc.store, Prefix: "assay", Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
		_, _, err := m.CreateKey(t.Context(), s, "1", "x", []assay.Scope{assay.ScopeRead}, 0)
		require.Equal(t, tc.want, assay.ErrorCode(err))
	}
}
