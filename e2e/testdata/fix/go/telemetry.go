// SPDX-License-Identifier: Apache-2.0

package shop

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// Setup sends spans to the endpoint of the environment until the returned function has flushed them.
func Setup(ctx context.Context) (flush func(context.Context) error, err error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	r, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithProcessRuntimeName(), resource.WithProcessRuntimeVersion(), resource.WithAttributes(
		attribute.String("service.name", "shop"), attribute.String("service.version", "1.0.0"),
		attribute.String("service.instance.id", "627cc493-f310-47de-96bd-71410b7dec09"), attribute.String("deployment.environment.name", "test"),
	))
	if err != nil {
		return nil, err
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter, trace.WithBlocking()), trace.WithResource(r))
	otel.SetTracerProvider(provider)
	return provider.Shutdown, nil
}
