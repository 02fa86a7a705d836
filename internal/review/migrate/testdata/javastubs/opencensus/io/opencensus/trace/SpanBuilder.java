package io.opencensus.trace;

import io.opencensus.common.Scope;
import java.util.Locale;
import recorder.Recorder;

public class SpanBuilder {
    private final String name;
    private final SpanContext parent;
    private Span.Kind kind;

    SpanBuilder(String name, SpanContext parent) {
        this.name = name;
        this.parent = parent;
    }

    public SpanBuilder setSpanKind(Span.Kind spanKind) {
        kind = spanKind;
        return this;
    }

    public Span startSpan() {
        Recorder recorder = new Recorder(name, parent.getTraceId().toLowerBase16(), parent.getSpanId().toLowerBase16());
        if (kind != null) {
            recorder.kind(kind.name().toLowerCase(Locale.ROOT));
        }
        return new Span(recorder);
    }

    public final Scope startScopedSpan() {
        Span span = startSpan();
        Scope scope = Tracer.TRACER.withSpan(span);
        return () -> {
            scope.close();
            span.end();
        };
    }
}
