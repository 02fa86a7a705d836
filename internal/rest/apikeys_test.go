// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

// keys is an assay.KeyManager of one organization. It checks no fields: auth.KeyManager does.
type keys struct {
	all []*assay.APIKey
	got assay.NewAPIKey // the last creation
	err error           // of the next creation
}

func newKeys() *keys {
	return &keys{all: []*assay.APIKey{
		{ID: "Ab3xYz", OrganizationID: orgID, Name: "<shop>", Scopes: []assay.Scope{assay.ScopeIngest}, CreatedAt: testNow.Add(-time.Hour), CreatedBy: "key:reader", ExpiresAt: testNow.Add(time.Hour), LastUsedAt: testNow.Add(-time.Minute)},
		{ID: "Old000", OrganizationID: orgID, Name: "old", Scopes: assay.Scopes(), CreatedAt: testNow.Add(-time.Hour), RevokedAt: testNow},
	}}
}

func (k *keys) FindKeys(_ context.Context, principal *assay.Principal, page assay.Page) (*assay.APIKeyPage, error) {
	found := slices.DeleteFunc(slices.Clone(k.all), func(one *assay.APIKey) bool { return one.OrganizationID != principal.OrganizationID })
	return &assay.APIKeyPage{Keys: pageOf(found, page), Total: len(found), Live: 1}, nil
}

func (k *keys) FindKey(_ context.Context, principal *assay.Principal, id string) (*assay.APIKey, error) {
	for _, one := range k.all {
		if one.ID == id && one.OrganizationID == principal.OrganizationID {
			return one, nil
		}
	}
	return nil, assay.Errorf(assay.CodeNotFound, "no such API key")
}

func (k *keys) CreateKey(_ context.Context, principal *assay.Principal, n assay.NewAPIKey) (*assay.APIKey, string, error) {
	k.got = n
	if k.err != nil {
		return nil, "", k.err
	}
	made := &assay.APIKey{ID: "New111", OrganizationID: principal.OrganizationID, Name: n.Name, Scopes: n.Scopes, CreatedAt: testNow, CreatedBy: principal.Subject}
	k.all = append(k.all, made)
	return made, "the secret", nil
}

func (k *keys) RevokeKey(ctx context.Context, principal *assay.Principal, id string) error {
	one, err := k.FindKey(ctx, principal, id)
	if err == nil {
		one.RevokedAt = testNow
	}
	return err
}

func (k *keys) Preview(one *assay.APIKey) string { return "assay_sk_" + one.ID + "_***" }

var apiKeyOperations = []struct {
	method, path string
	want         int
}{
	{"GET", "/api/v1/api-keys", 200},
	{"POST", "/api/v1/api-keys", 201},
	{"DELETE", "/api/v1/api-keys/Ab3xYz", 200},
}

func TestAPIKeyOperations(t *testing.T) {
	const body = `{"description":"n"}`
	for _, o := range apiKeyOperations {
		t.Run(o.method, func(t *testing.T) {
			f := newFixture(t)
			f.call(t, o.method, o.path, body, "").fails(t, 401, assay.CodeMissingCredentials)
			f.call(t, o.method, o.path, body, ingester).fails(t, 403, assay.CodeForbidden)
			f.call(t, o.method, o.path, body, person).fails(t, 403, assay.CodeForbidden)
			a := f.call(t, o.method, o.path, body, reader)
			require.Equal(t, o.want, a.Code)
			f.call(t, "PATCH", o.path, body, reader).fails(t, 405, assay.CodeMethodNotAllowed)
			f.h.cfg.Keys = nil
			f.call(t, o.method, o.path, body, reader).fails(t, 503, assay.CodeUnavailable)
		})
	}
	f := newFixture(t)
	for _, id := range []string{"zzzzzz", "x", "Ab3xYz1", "Ab3x-z", orgID, "%2e%2e%2f"} {
		f.call(t, "DELETE", "/api/v1/api-keys/"+id, "", reader).fails(t, 404, assay.CodeNotFound)
	}
	f.call(t, "DELETE", "/api/v1/api-keys/Ab3xYz", "", stranger).fails(t, 404, assay.CodeNotFound)
	require.JSONEq(t, "[]", string(f.call(t, "GET", "/api/v1/api-keys", "", stranger).Data))
}

func TestAPIKeyFields(t *testing.T) {
	f := newFixture(t)
	fake := f.cfg.Keys.(*keys)
	read := func(a *answer) (got APIKey) {
		t.Helper()
		require.NoError(t, json.Unmarshal(a.Data, &got), "%s", a.Body)
		return got
	}
	creator := "key:reader"
	made := f.call(t, "POST", "/api/v1/api-keys", `{"description":"n"}`, reader)
	require.Equal(t, 201, made.Code)
	require.Equal(t, APIKey{
		ID: "New111", KeyPreview: "assay_sk_New111_***", Description: "n", Scopes: []assay.Scope{assay.ScopeRead},
		CreatedAt: timestamp(testNow), IsActive: true, CreatedBy: &creator, Key: "the secret",
	}, read(made), "a key without scopes may read")
	require.Equal(t, assay.NewAPIKey{Name: "n", Scopes: []assay.Scope{assay.ScopeRead}}, fake.got, "each request creates a key")
	listed := f.call(t, "GET", "/api/v1/api-keys", "", reader)
	require.NotContains(t, listed.Body.String(), "secret")
	require.Equal(t, 3, *listed.Meta.Total)

	for body, want := range map[string]assay.NewAPIKey{
		`{"description":"n","scopes":null,"expires_in":null}`:                {Name: "n", Scopes: []assay.Scope{assay.ScopeRead}},
		`{"description":"n","scopes":["ingest","admin"],"expires_in":86400}`: {Name: "n", Scopes: []assay.Scope{assay.ScopeIngest, assay.ScopeAdmin}, ExpiresIn: 24 * time.Hour},
		`{"scopes":[],"expires_in":0}`:                                       {Scopes: []assay.Scope{}, ExpiresIn: -1},
		`{"expires_in":-5}`:                                                  {Scopes: []assay.Scope{assay.ScopeRead}, ExpiresIn: -1},
		`{"expires_in":9223372036854775807}`:                                 {Scopes: []assay.Scope{assay.ScopeRead}, ExpiresIn: -1},
	} {
		f.call(t, "POST", "/api/v1/api-keys", body, reader)
		require.Equal(t, want, fake.got, body)
	}
	for body, want := range map[string][2]string{
		"":                          {"body", "must be a JSON object"},
		"x":                         {"body", "must be a JSON object"},
		"null":                      {"body", "must be a JSON object"},
		"[]":                        {"body", "must be a JSON object"},
		`{"description":1}`:         {"description", "must be a string"},
		`{"scopes":"read"}`:         {"scopes", "must be an array of strings"},
		`{"scopes":["read",1]}`:     {"scopes", "must be an array of strings"},
		`{"expires_in":"30d"}`:      {"expires_in", "must be an integer number of seconds"},
		`{"expires_in":1.5}`:        {"expires_in", "must be an integer number of seconds"},
		`{"expires_in":1e30}`:       {"expires_in", "must be an integer number of seconds"},
		`{"expires_in":{"days":1}}`: {"expires_in", "must be an integer number of seconds"},
		`{"expires":60}`:            {"body", `has the unknown field "expires"; the fields are description, scopes, expires_in`},
		`{"Scopes":["ingest"]}`:     {"body", `has the unknown field "Scopes"; the fields are description, scopes, expires_in`},
	} {
		a := f.call(t, "POST", "/api/v1/api-keys", body, reader).fails(t, 400, assay.CodeInvalid)
		require.Equal(t, map[string]string{want[0]: want[1]}, a.Error.Details, body)
		require.Contains(t, a.Error.Message, want[0], body)
	}
	f.call(t, "POST", "/api/v1/api-keys", strings.Repeat(" ", maxObject+1), reader).fails(t, 413, assay.CodeTooLarge)
	for _, err := range []*assay.Error{assay.Invalid(map[string]string{"scopes": "x"}), assay.Errorf(assay.CodeForbidden, "x"), assay.Errorf(assay.CodeConflict, "x")} {
		fake.err = err
		f.call(t, "POST", "/api/v1/api-keys", `{}`, reader).fails(t, statuses[err.Code], err.Code)
	}
}
