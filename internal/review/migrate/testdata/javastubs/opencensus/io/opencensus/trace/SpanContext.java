package io.opencensus.trace;

public final class SpanContext {
    private final TraceId traceId;
    private final SpanId spanId;

    SpanContext(String traceId, String spanId) {
        this.traceId = new TraceId(traceId);
        this.spanId = new SpanId(spanId);
    }

    public TraceId getTraceId() {
        return traceId;
    }

    public SpanId getSpanId() {
        return spanId;
    }

    public boolean isValid() {
        return !spanId.toLowerBase16().isEmpty();
    }
}
