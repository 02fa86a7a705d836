package io.opentelemetry.api.common;

public interface AttributeKey<T> {
    String getKey();
}
