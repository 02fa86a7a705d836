// SPDX-License-Identifier: Apache-2.0

// A server's work with the usual mistakes in its telemetry.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

type request struct{ Method, Path string }

type customer struct{ ID, Email string }

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	res, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return err
	}
	spans, err := otlptracehttp.New(ctx)
	if err != nil {
		return err
	}
	points, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return err
	}
	records, err := otlploghttp.New(ctx)
	if err != nil {
		return err
	}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(spans, sdktrace.WithBlocking()))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(points)))
	loggers := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(sdklog.NewSimpleProcessor(records)))
	if err := serve(ctx, tracers.Tracer("shop"), meters.Meter("shop"), loggers.Logger("shop")); err != nil {
		return err
	}
	return errors.Join(tracers.Shutdown(ctx), meters.Shutdown(ctx), loggers.Shutdown(ctx))
}

func serve(ctx context.Context, tracer trace.Tracer, meter metric.Meter, logger log.Logger) error {
	duration, err := meter.Float64Histogram("checkout.duration.seconds", metric.WithUnit("s"))
	if err != nil {
		return err
	}
	requests, err := meter.Int64Counter("checkout.requests")
	if err != nil {
		return err
	}
	for i := range 1200 {
		r := request{"GET", fmt.Sprint("/users/", i)}
		user := customer{fmt.Sprint(i), fmt.Sprintf("jane.doe.%d@example.com", i)}
		start := time.Now()
		ctx, span := tracer.Start(ctx, fmt.Sprint("GET /users/", user.ID), trace.WithSpanKind(trace.SpanKindServer))
		span.SetAttributes(attribute.String("http.method", r.Method))
		span.SetAttributes(attribute.String("user.email", user.Email))
		if i%100 == 0 {
			warn(ctx, logger, user)
		}
		requests.Add(ctx, 1)
		duration.Record(ctx, time.Since(start).Seconds())
		span.End()
	}
	return nil
}

func warn(ctx context.Context, logger log.Logger, user customer) {
	var r log.Record
	r.SetTimestamp(time.Now())
	r.SetSeverityText("ERROR")
	r.SetBody(attribute.StringValue("login failed for " + user.Email))
	logger.Emit(ctx, r)
}
