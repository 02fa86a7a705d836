package com.example.shop;

import io.opentracing.Span;
import io.opentracing.SpanContext;
import io.opentracing.Tracer;
import io.opentracing.tag.Tags;
import java.util.ArrayList;
import java.util.List;

/** Keeps orders. */
class Store {
    private final List<String> items = new ArrayList<>();
    protected Tracer tracer;

    Store(Tracer tracer) {
        this.tracer = tracer;
    }

    void save(SpanContext parent, String item) {
        final Span span = this.tracer.buildSpan("save")
                .asChildOf(parent)
                .withTag(Tags.DB_TYPE, "sql")
                .withTag("db.rows", 1L)
                .start();
        Tags.SPAN_KIND.set(span, Tags.SPAN_KIND_CLIENT);
        Tags.DB_STATEMENT.set(span, "INSERT INTO orders VALUES (?)");
        Tags.PEER_HOST_IPV4.set(span, "10.0.0.1");
        items.add(item);
        span.log("inserted");
        span.setTag("trace", span.context().toTraceId());
        span.finish();
    }
}
