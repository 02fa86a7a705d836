package io.opentelemetry.api;

import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.propagation.ContextPropagators;

public interface OpenTelemetry {
    Tracer getTracer(String instrumentationScopeName);

    ContextPropagators getPropagators();
}
