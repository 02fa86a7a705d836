package io.opentelemetry.api.common;

public interface AttributeKey<T> {
    String getKey();

    static AttributeKey<String> stringKey(String key) {
        return () -> key;
    }

    static AttributeKey<Long> longKey(String key) {
        return () -> key;
    }
}
