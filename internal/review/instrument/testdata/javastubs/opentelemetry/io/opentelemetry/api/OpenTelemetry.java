package io.opentelemetry.api;

import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.propagation.ContextPropagators;

public interface OpenTelemetry {
    Tracer getTracer(String scope);

    Meter getMeter(String scope);

    ContextPropagators getPropagators();
}
