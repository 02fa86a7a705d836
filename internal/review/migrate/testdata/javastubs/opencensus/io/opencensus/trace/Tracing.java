package io.opencensus.trace;

public final class Tracing {
    private Tracing() {}

    public static Tracer getTracer() {
        return Tracer.TRACER;
    }
}
