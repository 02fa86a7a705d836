// SPDX-License-Identifier: Apache-2.0

package requestid

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// TraceID returns the trace id of the span in ctx, which telemetry.Middleware sets and which continues the trace of
// the W3C traceparent header. Without a span, it is random.
func TraceID(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		return span.TraceID().String()
	}
	return New()
}
