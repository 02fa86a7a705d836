package io.opentelemetry.api.common;

import java.util.HashMap;
import java.util.Map;

public class AttributesBuilder {
    private final Map<String, Object> values = new HashMap<>();

    public AttributesBuilder put(String key, String value) {
        values.put(key, value);
        return this;
    }

    public AttributesBuilder put(String key, long value) {
        values.put(key, value);
        return this;
    }

    public AttributesBuilder put(String key, double value) {
        values.put(key, value);
        return this;
    }

    public AttributesBuilder put(String key, boolean value) {
        values.put(key, value);
        return this;
    }

    public Attributes build() {
        return () -> values;
    }
}
