// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
)

// TestInsightJSON: the JSON of an insight, which is built from parts, equals its encoding
// in one piece.
func TestInsightJSON(t *testing.T) {
	s := newStore()
	s.addServices(orgID, 1)
	s.addInsights(s.services[0], int(catalog.Count))
	s.insights = append(s.insights, &assay.Insight{Type: "of_a_newer_program"})
	for n := range len(s.insights) + 1 {
		list := lists.Map(s.insights[:n], showInsight)
		whole := make([]any, n)
		for i := range list {
			var kind InsightType
			var b bytes.Buffer
			writeInsightType(&b, s.insights[i].Type, s.insights[i].Attributes)
			require.NoError(t, json.Unmarshal(b.Bytes(), &kind))
			require.Equal(t, s.insights[i].Type, kind.Name)
			whole[i] = struct {
				*Insight
				InsightType InsightType `json:"insight_type"`
			}{&list[i], kind}
		}
		var want, got bytes.Buffer
		require.NoError(t, encode(&want, whole))
		require.NoError(t, encode(&got, list))
		require.Equal(t, want.String(), got.String())
	}
}

// TestTypesAreMadeInTurn: the types of a page of insights are made while it is encoded, which takes a turn at the CPU.
func TestTypesAreMadeInTurn(t *testing.T) {
	in := &assay.Insight{Type: catalog.LOG003.Info().Name, Attributes: map[string]any{"findings": `[{"where":"body","kind":"email"}]`}}
	var shown Insight
	require.Less(t, testing.AllocsPerRun(100, func() { shown = showInsight(in) }), 10.0)
	var b bytes.Buffer
	require.NoError(t, shown.encode(&b))
	require.Contains(t, b.String(), "### Masking")
}

// BenchmarkInsights answers with 20 insights.
func BenchmarkInsights(b *testing.B) {
	f := newFixture(b)
	f.store.insights = nil
	f.store.addInsights(f.store.services[0], 20)
	r := httptest.NewRequest(http.MethodGet, "/api/v1/insights?limit=20", nil)
	r.Header.Set("Authorization", reader)
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		f.h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}

// codeFinder has one finding for every insight.
type codeFinder struct{}

func (codeFinder) Findings(context.Context, string, assay.FindingFilter) ([]*assay.CodeFinding, int, error) {
	return []*assay.CodeFinding{{
		ID: "finding", RepositoryID: unknownID, Check: "span-name", Severity: "high",
		Body: []byte(`{"display_title":"Unbounded name","locations":[{"file":"cart/main.go","line":7}]}`),
	}}, 1, nil
}

func (codeFinder) Repository(context.Context, string, string) (*assay.Repository, error) {
	return &assay.Repository{FullName: "acme/shop", URL: "https://git.example.com/acme/shop", ReviewedCommit: "abc"}, nil
}

// TestCodeLocations: repositories and code need the scope agent, as on the agent operations.
func TestCodeLocations(t *testing.T) {
	scopes := assay.Scopes()
	f := newFixture(t, func(c *Config) {
		c.Codebase = codeFinder{}
		c.Authenticate = func(context.Context, string, string) (*assay.Principal, error) {
			return &assay.Principal{OrganizationID: orgID, Scopes: scopes}, nil
		}
	})
	target := "/api/v1/insights/" + f.insights[0].ID
	var got Insight
	require.NoError(t, json.Unmarshal(f.get(t, target).ok(t).Data, &got))
	require.Equal(t, []CodeLocation{{
		FindingID: "finding", RepositoryID: unknownID, Repository: "acme/shop", URL: "https://git.example.com/acme/shop", Commit: "abc", Check: "span-name",
		Title: "Unbounded name", Severity: "high", File: "cart/main.go", Line: 7,
	}}, got.CodeLocations)
	scopes = []assay.Scope{assay.ScopeRead, assay.ScopeIngest, assay.ScopeAdmin}
	require.NotContains(t, f.get(t, target).ok(t).Body.String(), "code_locations")
}
