package io.opentracing.tag;

import io.opentracing.Span;

public class IntOrStringTag extends IntTag {
    public IntOrStringTag(String key) {
        super(key);
    }

    public void set(Span span, String value) {
        span.setTag(getKey(), value);
    }
}
