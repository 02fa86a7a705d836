package io.opentelemetry.api.common;

import java.util.Map;
import java.util.TreeMap;

public class AttributesBuilder {
    final Map<String, Object> values = new TreeMap<>();

    public AttributesBuilder put(String key, String value) {
        values.put(key, value);
        return this;
    }

    public AttributesBuilder put(String key, long value) {
        values.put(key, value);
        return this;
    }

    public <T> AttributesBuilder put(AttributeKey<T> key, T value) {
        values.put(key.getKey(), value);
        return this;
    }

    public Attributes build() {
        Map<String, Object> copy = new TreeMap<>(values);
        return () -> copy;
    }
}
