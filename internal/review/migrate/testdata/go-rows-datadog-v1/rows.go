// SPDX-License-Identifier: Apache-2.0

// Package rows uses what version 1 of the Datadog tracer has otherwise than version 2.
package rows

import (
	"context"
	"fmt"
	"net/http"

	"gopkg.in/DataDog/dd-trace-go.v1/ddtrace"
	"gopkg.in/DataDog/dd-trace-go.v1/ddtrace/ext"
	"gopkg.in/DataDog/dd-trace-go.v1/ddtrace/tracer"
)

const service = "rows"

// Start starts tracing.
func Start() {
	tracer.Start(tracer.WithService(service), tracer.WithSamplingRules([]tracer.SamplingRule{tracer.RateRule(0.5)}))
}

func serve(r *http.Request) error {
	opts := []ddtrace.StartSpanOption{
		tracer.SpanType(ext.SpanTypeWeb), // a server
		tracer.Tag(ext.HTTPMethod, r.Method),
	}
	if sc, err := tracer.Extract(tracer.HTTPHeadersCarrier(r.Header)); err == nil {
		opts = append(opts, tracer.ChildOf(sc), tracer.AnalyticsRate(1))
	}
	span := tracer.StartSpan("web.request", opts...)
	defer span.Finish()
	fmt.Println(span.Context().TraceID(), span.Context().SpanID())
	return send(tracer.ContextWithSpan(r.Context(), span), r)
}

func send(ctx context.Context, r *http.Request) error {
	var opts []tracer.StartSpanOption
	if r.Method != "" {
		opts = append(opts, tracer.Tag(ext.HTTPMethod, r.Method))
	}
	span, ctx := tracer.StartSpanFromContext(ctx, "send", opts...)
	defer span.Finish()
	child, ctx := tracer.StartSpanFromContext(ctx, "wait", tracer.ServiceName("rows"))
	child.Finish(tracer.WithError(ctx.Err()))
	return tracer.Inject(span.Context(), tracer.HTTPHeadersCarrier(r.Header))
}
