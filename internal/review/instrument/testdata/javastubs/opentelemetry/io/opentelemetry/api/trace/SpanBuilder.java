package io.opentelemetry.api.trace;

import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.context.Context;

public final class SpanBuilder {
    private final Span span;

    public SpanBuilder(String scope, String name) {
        span = new Span(name, scope);
    }

    public SpanBuilder setSpanKind(SpanKind kind) {
        span.kind = kind;
        return this;
    }

    public SpanBuilder setParent(Context context) {
        span.parent = Span.fromContext(context);
        return this;
    }

    public SpanBuilder setAllAttributes(Attributes attributes) {
        span.attributes.putAll(attributes.all());
        return this;
    }

    public Span startSpan() {
        span.start();
        return span;
    }
}
