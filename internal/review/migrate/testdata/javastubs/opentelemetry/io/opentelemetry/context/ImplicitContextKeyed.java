package io.opentelemetry.context;

public interface ImplicitContextKeyed {
    default Scope makeCurrent() {
        return Context.current().with(this).makeCurrent();
    }

    Context storeInContext(Context context);
}
