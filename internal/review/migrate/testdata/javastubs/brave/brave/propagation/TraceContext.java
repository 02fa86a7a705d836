package brave.propagation;

public final class TraceContext {
    private final String traceId;
    private final String spanId;

    public TraceContext(String traceId, String spanId) {
        this.traceId = traceId;
        this.spanId = spanId;
    }

    public String traceIdString() {
        return traceId;
    }

    public String spanIdString() {
        return spanId;
    }
}
