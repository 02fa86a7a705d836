// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
)

// TestTraceIDOfTheSpan sends a request within a span, sampled or not. The response has
// the span's trace id, regardless of the header.
func TestTraceIDOfTheSpan(t *testing.T) {
	f := newFixture(t)
	for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled} {
		span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}, TraceFlags: flags})
		for _, target := range []string{"/api/v1/organization", "/nothing"} {
			r := httptest.NewRequest("GET", target, nil)
			r.Header.Set("Authorization", reader)
			r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
			a := f.serve(t, r.WithContext(trace.ContextWithSpanContext(r.Context(), span)))
			require.Equal(t, "01020000000000000000000000000000", a.Meta.TraceID)
		}
	}
}
