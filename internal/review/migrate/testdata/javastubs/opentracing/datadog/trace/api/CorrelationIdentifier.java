package datadog.trace.api;

import io.opentracing.util.GlobalTracer;

public class CorrelationIdentifier {
    public static String getTraceId() {
        return GlobalTracer.get().activeSpan().context().toTraceId();
    }

    public static String getSpanId() {
        return GlobalTracer.get().activeSpan().context().toSpanId();
    }
}
