package io.opencensus.trace;

public final class TraceId {
    private final String id;

    TraceId(String id) {
        this.id = id;
    }

    public String toLowerBase16() {
        return id;
    }
}
