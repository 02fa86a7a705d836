package io.opentracing.tag;

import io.opentracing.Span;

public class BooleanTag implements Tag<Boolean> {
    private final String key;

    public BooleanTag(String key) {
        this.key = key;
    }

    @Override
    public String getKey() {
        return key;
    }

    @Override
    public void set(Span span, Boolean value) {
        span.setTag(key, value);
    }
}
