package io.opentelemetry.sdk;

import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.propagation.ContextPropagators;

public final class OpenTelemetrySdk implements OpenTelemetry {
    @Override
    public Tracer getTracer(String instrumentationScopeName) {
        return GlobalOpenTelemetry.getTracer(instrumentationScopeName);
    }

    @Override
    public ContextPropagators getPropagators() {
        return GlobalOpenTelemetry.getPropagators();
    }
}
