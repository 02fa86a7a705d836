package io.opentelemetry.context.propagation;

public interface TextMapSetter<C> {
    void set(C carrier, String key, String value);
}
