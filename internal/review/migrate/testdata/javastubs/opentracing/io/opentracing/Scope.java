package io.opentracing;

import java.io.Closeable;

public interface Scope extends Closeable {
    @Override
    void close();

    /** Of versions before 0.33. */
    Span span();
}
