// SPDX-License-Identifier: Apache-2.0

// Command rows has the tracer of another package.
package main

import (
	"context"
	"io"
	"net/http"

	"github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/log"

	"example.com/rows"
)

func main() {
	tracer, closer := rows.Must("command")
	defer closer.Close()
	opentracing.SetGlobalTracer(tracer)
	run(context.Background(), nil)
}

func used() opentracing.Tracer {
	tracer, closer := rows.Must("command")
	defer closer.Close()
	opentracing.SetGlobalTracer(tracer)
	return tracer
}

func assigned() io.Closer {
	var tracer opentracing.Tracer
	var closer io.Closer
	tracer, closer = rows.Must("command")
	opentracing.SetGlobalTracer(tracer)
	return closer
}

func inject(span opentracing.Span, values map[string]string) {
	tracer := used()
	_ = tracer.Inject(span.Context(), opentracing.TextMap, opentracing.TextMapCarrier(values))
}

func run(ctx context.Context, request *http.Request) error {
	span, ctx := begin(ctx, "run")
	defer span.Finish()
	if err := span.Tracer().Inject(span.Context(), opentracing.HTTPHeaders, opentracing.HTTPHeadersCarrier(request.Header)); err != nil {
		return err
	}
	tracer := opentracing.GlobalTracer()
	if _, err := remote(tracer, request); err != nil {
		return err
	}
	opentracing.SpanFromContext(ctx).LogFields(log.Int("left", 1))
	return send(span, request)
}

func begin(ctx context.Context, name string) (opentracing.Span, context.Context) {
	return opentracing.StartSpanFromContext(ctx, name)
}

func child(ctx context.Context) {
	opts := []opentracing.StartSpanOption{}
	if parent := opentracing.SpanFromContext(ctx); parent != nil {
		opts = append(opts, opentracing.ChildOf(parent.Context()))
	}
	span := opentracing.StartSpan("child", opts...)
	defer span.Finish()
}

func remote(tracer opentracing.Tracer, request *http.Request) (opentracing.SpanContext, error) {
	return tracer.Extract(opentracing.HTTPHeaders, opentracing.HTTPHeadersCarrier(request.Header))
}

func send(span opentracing.Span, request *http.Request) error {
	tracer := opentracing.GlobalTracer()
	return tracer.Inject(span.Context(), opentracing.HTTPHeaders, opentracing.HTTPHeadersCarrier(request.Header))
}
