package io.opentracing.tag;

import io.opentracing.Span;

public interface Tag<T> {
    String getKey();

    void set(Span span, T value);
}
