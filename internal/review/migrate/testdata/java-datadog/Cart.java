package com.example.cart;

import datadog.trace.api.CorrelationIdentifier;
import datadog.trace.api.DDSpanTypes;
import datadog.trace.api.DDTags;
import datadog.trace.api.Trace;
import io.opentracing.Scope;
import io.opentracing.Span;
import io.opentracing.Tracer;
import io.opentracing.util.GlobalTracer;

public class Cart {
    public static void main(String[] args) {
        Tracer tracer = GlobalTracer.get();
        Span span = tracer.buildSpan("cart.add").withTag(DDTags.SPAN_TYPE, DDSpanTypes.HTTP_SERVER).start();
        try (Scope scope = tracer.activateSpan(span)) {
            span.setTag(DDTags.RESOURCE_NAME, "POST /cart");
            span.setTag("log.trace", CorrelationIdentifier.getTraceId());
            span.setTag("log.span", CorrelationIdentifier.getSpanId());
            new Cart().add("book");
        } finally {
            span.finish();
        }
    }

    @Trace(operationName = "add")
    void add(String item) {
        count();
    }

    @Trace
    private void count() {}
}
