package brave;

import brave.propagation.TraceContext;

public class ScopedSpan implements SpanCustomizer {
    private final Span span;
    private final Tracer.SpanInScope scope;

    ScopedSpan(Span span) {
        this.span = span;
        scope = new Tracer.SpanInScope(span);
    }

    @Override
    public ScopedSpan name(String name) {
        span.name(name);
        return this;
    }

    @Override
    public ScopedSpan tag(String key, String value) {
        span.tag(key, value);
        return this;
    }

    @Override
    public ScopedSpan annotate(String value) {
        span.annotate(value);
        return this;
    }

    public ScopedSpan error(Throwable throwable) {
        span.error(throwable);
        return this;
    }

    public TraceContext context() {
        return span.context();
    }

    public void finish() {
        scope.close();
        span.finish();
    }
}
