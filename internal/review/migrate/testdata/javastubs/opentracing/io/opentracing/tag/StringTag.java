package io.opentracing.tag;

import io.opentracing.Span;

public class StringTag implements Tag<String> {
    private final String key;

    public StringTag(String key) {
        this.key = key;
    }

    @Override
    public String getKey() {
        return key;
    }

    @Override
    public void set(Span span, String value) {
        span.setTag(key, value);
    }
}
