package io.opencensus.trace;

import io.opencensus.common.Scope;

public class Tracer {
    static final Tracer TRACER = new Tracer();

    private final ThreadLocal<Span> current = ThreadLocal.withInitial(() -> Span.BLANK);

    public final Span getCurrentSpan() {
        return current.get();
    }

    public final Scope withSpan(Span span) {
        Span before = current.get();
        current.set(span);
        return () -> current.set(before);
    }

    public final SpanBuilder spanBuilder(String spanName) {
        return spanBuilderWithExplicitParent(spanName, getCurrentSpan());
    }

    public SpanBuilder spanBuilderWithExplicitParent(String spanName, Span parent) {
        return spanBuilderWithRemoteParent(spanName, parent == null ? null : parent.getContext());
    }

    public SpanBuilder spanBuilderWithRemoteParent(String spanName, SpanContext parent) {
        return new SpanBuilder(spanName, parent == null ? new SpanContext("", "") : parent);
    }
}
