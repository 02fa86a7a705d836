// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"assay/internal/requestid"
)

// traceID returns the trace id of the span in ctx, which telemetry.Middleware sets and which continues the trace of
// the W3C traceparent header. Without a span, it is random.
func traceID(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		return span.TraceID().String()
	}
	return requestid.New()
}
