// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
)

// inTrace returns a request of the reader within a trace, as telemetry.Middleware passes it on.
func inTrace(t testing.TB, r *http.Request, traceID string) *http.Request {
	t.Helper()
	id, err := trace.TraceIDFromHex(traceID)
	require.NoError(t, err)
	r.Header.Set("Authorization", reader)
	return r.WithContext(trace.ContextWithSpanContext(r.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id})))
}

// TestTraceID sends requests with and without a span. The response has the span's trace id, or else a random one,
// regardless of the header, which is for telemetry.Middleware.
func TestTraceID(t *testing.T) {
	f := newFixture(t)
	for _, target := range []string{"/api/v1/organization", "/nothing"} {
		r := httptest.NewRequest("GET", target, nil)
		r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
		a := f.serve(t, inTrace(t, r, "01020000000000000000000000000000"))
		require.Equal(t, "01020000000000000000000000000000", a.Meta.TraceID)
	}
	require.NotEqual(t, f.get(t, "/livez").Meta.TraceID, f.get(t, "/livez").Meta.TraceID)
}
