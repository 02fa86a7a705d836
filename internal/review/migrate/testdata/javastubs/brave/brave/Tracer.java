package brave;

import brave.propagation.TraceContext;
import java.io.Closeable;

public class Tracer {
    static final ThreadLocal<Span> CURRENT = new ThreadLocal<>();

    public Span nextSpan() {
        return new Span(CURRENT.get() == null ? null : CURRENT.get().context());
    }

    public Span newTrace() {
        return new Span(null);
    }

    public Span newChild(TraceContext parent) {
        return new Span(parent);
    }

    public Span currentSpan() {
        return CURRENT.get();
    }

    public SpanCustomizer currentSpanCustomizer() {
        return CURRENT.get();
    }

    public SpanInScope withSpanInScope(Span span) {
        return new SpanInScope(span);
    }

    public ScopedSpan startScopedSpan(String name) {
        return new ScopedSpan(nextSpan().name(name).start());
    }

    public static final class SpanInScope implements Closeable {
        private final Span before = CURRENT.get();

        SpanInScope(Span span) {
            CURRENT.set(span);
        }

        @Override
        public void close() {
            CURRENT.set(before);
        }
    }
}
