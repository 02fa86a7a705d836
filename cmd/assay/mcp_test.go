// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMCPAuthentication: /mcp rejects credentials like the API, and shares its limits.
func TestMCPAuthentication(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	cfg.AuthFailureLimit, cfg.RateLimit = 1, 2
	s, _ := startServer(t, cfg)
	for _, c := range []struct {
		key    string
		status int
		code   string
	}{
		{"", http.StatusUnauthorized, "MISSING_CREDENTIALS"},
		{testKey + "0", http.StatusUnauthorized, "INVALID_API_KEY"},
		{testKey + "1", http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED"},
		{testKey, http.StatusMethodNotAllowed, ""}, // the protocol requires POST
		{testKey, http.StatusMethodNotAllowed, ""},
		{testKey, http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED"},
	} {
		status, body := get(t, client(t), s.rootURL()+mcpPath, c.key)
		require.Equal(t, c.status, status, body)
		var failure struct{ Error struct{ Code string } }
		if c.code != "" {
			require.NoError(t, json.Unmarshal([]byte(body), &failure), body)
		}
		require.Equal(t, c.code, failure.Error.Code)
	}
}
