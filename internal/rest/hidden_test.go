// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/safetext"
)

// TestNothingIsHidden: text that a sender or the agent backend chose reaches a terminal
// escaped, and a program unchanged.
func TestNothingIsHidden(t *testing.T) {
	const hostile = "\u009b31m\u202eevil\u2066\u061c\ufeff\U000e0041\u2028\x7f\x1b<&"
	raw, err := json.Marshal(map[string]string{hostile: hostile})
	require.NoError(t, err)
	f := newFixture(t, func(c *Config) {
		c.Agent = agentFunc(func(context.Context, *assay.AgentCall) (*assay.AgentAnswer, error) {
			return &assay.AgentAnswer{Data: []byte("{\"a\":\"" + "\u009b\u202e\xff" + "\"}")}, nil
		})
	})
	f.services[0].Name = hostile
	f.insights[0].Service.Name = hostile
	f.insights[0].Attributes = map[string]any{"span_names": string(raw), hostile: []any{hostile}}
	for _, target := range []string{
		"/api/v1/services?limit=100", "/api/v1/services/" + f.services[0].ID, "/api/v1/insights?limit=100", "/api/v1/insights/" + f.insights[0].ID,
		"/api/v1/agent/repositories", "/api/v1/services?sort=%C2%9B%E2%80%AE",
	} {
		a := f.get(t, target)
		for _, r := range a.Body.String() {
			require.False(t, safetext.Hidden(r), "%s: %U in %s", target, r, a.Body)
		}
		require.True(t, json.Valid(a.Body.Bytes()))
	}
	var service struct{ Name string }
	require.NoError(t, json.Unmarshal(f.get(t, "/api/v1/services/"+f.services[0].ID).ok(t).Data, &service))
	require.Equal(t, hostile, service.Name)
	var insight struct{ Attributes map[string]any }
	require.NoError(t, json.Unmarshal(f.get(t, "/api/v1/insights/"+f.insights[0].ID).ok(t).Data, &insight))
	require.Equal(t, map[string]any{"span_names": string(raw), hostile: []any{hostile}}, insight.Attributes)
}
