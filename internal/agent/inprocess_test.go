// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/inprocess"
)

// TestInProcess forwards calls to a handler of this process: with the token and the body, and with its refusals. A call
// whose caller has gone is not a failure of the agent.
func TestInProcess(t *testing.T) {
	var seen *http.Request
	var body []byte
	gone, leave := context.WithCancel(t.Context())
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		body, _ = io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/refused":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"error":{"code":"REPOSITORY_LIMIT","message":"too many"}}`)
		case "/gone":
			leave()
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"data":{"a":1},"meta":{}}`)
		}
	})
	var last Event
	g, err := New(Config{
		URL: "http://agent.invalid", Transport: inprocess.Transport{Handler: h}, Observe: func(e Event) { last = e },
		Sign: func(context.Context, *assay.Principal) (string, error) { return "token", nil },
	})
	require.NoError(t, err)
	t.Cleanup(g.Close)
	call := func(ctx context.Context, path string) (*assay.AgentAnswer, error) {
		return g.Forward(ctx, &assay.AgentCall{
			Operation: "x", Caller: &assay.Principal{OrganizationID: "o"}, Method: http.MethodPost, Path: path, Query: "a=1;b", Body: []byte(`{"b":2}`),
		})
	}
	answer, err := call(t.Context(), "/executions/run%201")
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1}`, string(answer.Data))
	require.Equal(t, "/executions/run%201?a=1;b", seen.RequestURI)
	require.Equal(t, "Bearer token", seen.Header.Get("Authorization"))
	require.JSONEq(t, `{"b":2}`, string(body))
	require.Equal(t, OutcomeOK, last.Outcome)
	_, err = call(t.Context(), "/refused")
	require.Equal(t, assay.CodeConflict, assay.ErrorCode(err))
	_, err = call(gone, "/gone")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, OutcomeCanceled, last.Outcome)
}
