package io.opentelemetry.api.common;

import java.util.Map;

public interface Attributes {
    Map<String, Object> all();

    static AttributesBuilder builder() {
        return new AttributesBuilder();
    }

    static <T> Attributes of(AttributeKey<T> key, T value) {
        return builder().put(key, value).build();
    }

    default AttributesBuilder toBuilder() {
        AttributesBuilder builder = new AttributesBuilder();
        builder.values.putAll(all());
        return builder;
    }
}
