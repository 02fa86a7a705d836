package io.opentelemetry.context;

import io.opentelemetry.api.trace.Span;

/** Holds the current span, null if there is none. */
public interface Context {
    ThreadLocal<Context> CURRENT = ThreadLocal.withInitial(() -> () -> null);

    Span value();

    static Context current() {
        return CURRENT.get();
    }

    default Context with(Span span) {
        return () -> span;
    }

    default Scope makeCurrent() {
        Context before = CURRENT.get();
        Thread thread = Thread.currentThread();
        CURRENT.set(this);
        return () -> {
            if (CURRENT.get() != this || thread != Thread.currentThread()) {
                throw new IllegalStateException("closed in another thread, or not the current one");
            }
            CURRENT.set(before);
        };
    }
}
