// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	admin := &assay.Principal{OrganizationID: orgs[0], Subject: "key:aaaaaa", Scopes: assay.Scopes()}
	narrow := &assay.Principal{OrganizationID: orgs[0], Subject: "key:bbbbbb", Scopes: []assay.Scope{assay.ScopeRead, assay.ScopeAdmin}}
	reader := &assay.Principal{OrganizationID: orgs[0], Subject: "user", Scopes: assay.DefaultScopes()}
	foreign := &assay.Principal{OrganizationID: orgs[1], Subject: "key:cccccc", Scopes: assay.Scopes()}
	read, ingest := []assay.Scope{assay.ScopeRead}, []assay.Scope{assay.ScopeIngest}

	k, secret, err := m.CreateKey(t.Context(), admin, assay.NewAPIKey{Once: form(), Name: " for <the> shop\t", Scopes: []assay.Scope{assay.ScopeIngest, assay.ScopeRead, assay.ScopeIngest}, ExpiresIn: time.Hour})
	require.NoError(t, err)
	stored, err := store.FindAPIKey(t.Context(), k.ID)
	require.NoError(t, err)
	require.Equal(t, k, stored)
	require.Equal(t, []assay.Scope{assay.ScopeRead, assay.ScopeIngest}, k.Scopes)
	require.Equal(t, now.Add(time.Hour), k.ExpiresAt)
	require.Equal(t, orgs[0], k.OrganizationID)
	require.Equal(t, "key:aaaaaa", k.CreatedBy)
	require.Equal(t, "for <the> shop", k.Name)
	require.Equal(t, "assay_sk_"+k.ID+"_***", m.Preview(k))
	a := &auth.Authenticator{Keys: store, Prefix: "assay", Now: clock}
	t.Cleanup(a.Close)
	principal, err := a.Authenticate(t.Context(), "Bearer "+secret, "127.0.0.1:1")
	require.NoError(t, err)
	require.Equal(t, orgs[0], principal.OrganizationID)

	for name, tc := range map[string]struct {
		by     *assay.Principal
		name   string
		scopes []assay.Scope
		in     time.Duration
		want   assay.Code
	}{
		"no admin":           {reader, "x", read, 0, assay.CodeForbidden},
		"wider":              {narrow, "x", ingest, 0, assay.CodeForbidden},
		"partly wider":       {narrow, "x", assay.Scopes(), 0, assay.CodeForbidden},
		"no organization":    {&assay.Principal{Scopes: assay.Scopes()}, "x", read, 0, assay.CodeForbidden},
		"unknown scope":      {admin, "x", []assay.Scope{"root"}, 0, assay.CodeInvalid},
		"joined scopes":      {admin, "x", []assay.Scope{"read,admin"}, 0, assay.CodeInvalid},
		"no scope":           {admin, "x", nil, 0, assay.CodeInvalid},
		"one scope too many": {narrow, "x", []assay.Scope{assay.ScopeRead, assay.ScopeAgent}, 0, assay.CodeForbidden},
		"too long a life":    {admin, "x", read, assay.MaxAPIKeyLife + time.Second, assay.CodeInvalid},
		"no name":            {admin, " \t", read, 0, assay.CodeInvalid},
		"long name":          {admin, strings.Repeat("x", 101), read, 0, assay.CodeInvalid},
		"long in UTF-16":     {admin, strings.Repeat("\U0001F511", 51), read, 0, assay.CodeInvalid},
		"name not UTF-8":     {admin, "a\xff", read, 0, assay.CodeInvalid},
		"name with a NUL":    {admin, "a\x00", read, 0, assay.CodeInvalid},
		"ends before begin":  {admin, "x", read, -time.Hour, assay.CodeInvalid},
	} {
		_, secret, err := m.CreateKey(t.Context(), tc.by, assay.NewAPIKey{Once: form(), Name: tc.name, Scopes: tc.scopes, ExpiresIn: tc.in})
		require.Equal(t, tc.want, assay.ErrorCode(err), name)
		require.Empty(t, secret)
	}
	_, _, err = m.CreateKey(t.Context(), admin, assay.NewAPIKey{Once: strings.Repeat("x", assay.MaxAPIKeyOnce+1), ExpiresIn: assay.MaxAPIKeyLife + 1})
	var invalid *assay.Error
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, assay.CodeInvalid, invalid.Code)
	require.Equal(t, []string{"description", "expires_in", "once", "scopes"}, slices.Sorted(maps.Keys(invalid.Details)))
	require.True(t, strings.HasPrefix(invalid.Message, "description must have "), invalid.Message)
	_, _, err = m.CreateKey(t.Context(), narrow, assay.NewAPIKey{Once: form(), Name: strings.Repeat("\U0001F511", 50), Scopes: []assay.Scope{assay.ScopeRead, assay.ScopeAdmin}})
	require.NoError(t, err)

	list := func(s *assay.Principal) (names []string) {
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
	for _, principal := range []*assay.Principal{reader, {Scopes: assay.Scopes()}} {
		_, err := m.FindKeys(t.Context(), principal, assay.Page{Limit: 10})
		require.Equal(t, assay.CodeForbidden, assay.ErrorCode(err), "the scope read does not list keys")
		_, err = m.FindKey(t.Context(), principal, k.ID)
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

	// A key does not outlive the key that created it.
	parent, _, err := m.CreateKey(t.Context(), admin, assay.NewAPIKey{Once: form(), Name: "parent", Scopes: assay.Scopes(), ExpiresIn: time.Hour})
	require.NoError(t, err)
	brief := &assay.Principal{OrganizationID: orgs[0], Subject: "key:" + parent.ID, Scopes: assay.Scopes()}
	for in, want := range map[time.Duration]time.Duration{0: time.Hour, time.Minute: time.Minute, 48 * time.Hour: time.Hour} {
		child, _, err := m.CreateKey(t.Context(), brief, assay.NewAPIKey{Once: form(), Name: "child", Scopes: read, ExpiresIn: in})
		require.NoError(t, err)
		require.Equal(t, now.Add(want), child.ExpiresAt)
	}
}

// TestOneFormMakesOneKey sends a form twice, and eight times at once.
func TestOneFormMakesOneKey(t *testing.T) {
	store, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	o := &assay.Organization{Name: "one", Tier: assay.TierFree}
	require.NoError(t, store.CreateOrganization(t.Context(), o))
	m := &auth.KeyManager{Store: store, Prefix: "assay", Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	s := &assay.Principal{OrganizationID: o.ID, Scopes: assay.Scopes()}
	send := func(s *assay.Principal, once string) error {
		_, _, err := m.CreateKey(t.Context(), s, assay.NewAPIKey{Once: once, Name: "for " + once, Scopes: []assay.Scope{assay.ScopeRead}})
		return err
	}
	require.NoError(t, send(s, "1"))
	for range 2 {
		require.NoError(t, send(s, ""), "requests without an identity")
	}
	err = send(s, "1")
	require.Equal(t, assay.CodeConflict, assay.ErrorCode(err))
	require.ErrorContains(t, err, "for 1")
	require.NoError(t, send(s, "other"))
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
	require.Equal(t, 5, page.Total)
}

// crowded is a store whose first ids belong to other organizations, or whose organizations have too many keys.
type crowded struct {
	assay.APIKeyStore
	taken    int
	full     bool
	attempts int
	limits   assay.APIKeyLimits
}

func (c *crowded) FindAPIKey(context.Context, string) (*assay.APIKey, error) {
	return &assay.APIKey{OrganizationID: "another"}, nil
}

func (c *crowded) CreateAPIKey(_ context.Context, _ *assay.APIKey, limits assay.APIKeyLimits) error {
	c.attempts++
	c.limits = limits
	if c.full {
		return &assay.Error{Code: assay.CodeConflict, Err: assay.ErrTooManyAPIKeys}
	}
	if c.taken--; c.taken >= 0 {
		return assay.Errorf(assay.CodeConflict, "taken")
	}
	return nil
}

func TestKeyManagerCrowded(t *testing.T) {
	s := &assay.Principal{OrganizationID: "org", Scopes: assay.Scopes()}
	for _, tc := range []struct {
		store    crowded
		want     assay.Code
		attempts int
	}{
		{crowded{taken: 4}, "", 5},
		{crowded{taken: 5}, assay.CodeConflict, 5},
		{crowded{full: true}, assay.CodeConflict, 1},
	} {
		m := &auth.KeyManager{Store: &tc.store, Prefix: "assay", Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
		_, _, err := m.CreateKey(t.Context(), s, assay.NewAPIKey{Once: "1", Name: "x", Scopes: []assay.Scope{assay.ScopeRead}})
		require.Equal(t, tc.want, assay.ErrorCode(err))
		require.Equal(t, tc.attempts, tc.store.attempts)
		require.Equal(t, assay.APIKeyLimits{Live: auth.MaxLiveKeys, All: auth.MaxKeys}, tc.store.limits)
	}
}
