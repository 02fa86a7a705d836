package io.opentelemetry.context;

/** Holds a value: the span. */
public interface Context {
    static Context current() {
        return Contexts.CURRENT.get();
    }

    static Context root() {
        return Contexts.ROOT;
    }

    Object value();

    default Context with(ImplicitContextKeyed value) {
        return value.storeInContext(this);
    }

    default Scope makeCurrent() {
        Context before = Contexts.CURRENT.get();
        Contexts.CURRENT.set(this);
        return () -> Contexts.CURRENT.set(before);
    }
}

final class Contexts {
    static final Context ROOT = () -> null;
    static final ThreadLocal<Context> CURRENT = ThreadLocal.withInitial(() -> ROOT);

    private Contexts() {}
}
