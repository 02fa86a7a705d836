package io.opentracing;

import java.util.Map;

public interface SpanContext {
    String toTraceId();

    String toSpanId();

    Iterable<Map.Entry<String, String>> baggageItems();
}
