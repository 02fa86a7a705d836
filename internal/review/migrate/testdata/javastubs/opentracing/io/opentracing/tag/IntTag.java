package io.opentracing.tag;

import io.opentracing.Span;

public class IntTag implements Tag<Integer> {
    private final String key;

    public IntTag(String key) {
        this.key = key;
    }

    @Override
    public String getKey() {
        return key;
    }

    @Override
    public void set(Span span, Integer value) {
        span.setTag(key, value);
    }
}
