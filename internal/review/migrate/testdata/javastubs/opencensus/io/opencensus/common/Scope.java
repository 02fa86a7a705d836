package io.opencensus.common;

public interface Scope extends AutoCloseable {
    @Override
    void close();
}
