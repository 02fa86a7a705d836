package io.opentracing;

public interface ScopeManager {
    Scope activate(Span span);

    Span activeSpan();

    /** Of versions before 0.33. */
    Scope active();
}
