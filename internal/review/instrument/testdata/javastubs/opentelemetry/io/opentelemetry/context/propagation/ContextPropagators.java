package io.opentelemetry.context.propagation;

public interface ContextPropagators {
    TextMapPropagator getTextMapPropagator();
}
