package io.opencensus.trace;

public final class SpanId {
    private final String id;

    SpanId(String id) {
        this.id = id;
    }

    public String toLowerBase16() {
        return id;
    }
}
