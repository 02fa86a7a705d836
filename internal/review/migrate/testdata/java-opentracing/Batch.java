package com.example.shop;

import io.opentracing.Tracer;
import io.opentracing.util.GlobalTracer;
import java.util.Collections;

/** Uses qualified names, as Span and Scope are its own. */
final class Batch {
    private enum Scope {
        ALL,
        OPEN
    }

    private record Span(Scope scope, int orders) {}

    private Batch() {}

    static void run() {
        Tracer tracer = GlobalTracer.get();
        Span orders = new Span(Scope.OPEN, 3);
        io.opentracing.Span span = tracer.buildSpan("batch").withStartTimestamp(1_000).start();
        try (io.opentracing.Scope active = tracer.scopeManager().activate(span)) {
            span.setTag("batch.scope", orders.scope().toString());
            span.log(2_000, Collections.singletonMap("event", "begin"));
            report(span.context());
        }
        if (tracer.scopeManager().activeSpan() != null) {
            tracer.activeSpan().setTag("left", true);
        }
        io.opentracing.Scope second = tracer.activateSpan(span);
        tracer.buildSpan("close").start().finish();
        second.close();
        span.finish();
    }

    private static void report(io.opentracing.SpanContext context) {
        GlobalTracer.get().buildSpan("report").ignoreActiveSpan().asChildOf(context).withTag("parent", context.toSpanId()).start().finish();
    }
}
