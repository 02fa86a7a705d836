package com.example.shop;

import io.opentracing.*;
import io.opentracing.propagation.Format.Builtin;
import io.opentracing.propagation.TextMapInjectAdapter;
import io.opentracing.tag.Tags;
import java.util.HashMap;
import java.util.concurrent.Callable;

/** Sends messages. */
class Notifier {
    void send(Tracer tracer, String kind) throws Exception {
        Span parent = tracer.buildSpan("notify").ignoreActiveSpan().startManual();
        try (Scope ignored = tracer.scopeManager().activate(parent)) {
            var span = tracer.buildSpan("send " + kind).asChildOf(parent).start();
            span.setTag(Tags.SPAN_KIND, Tags.SPAN_KIND_PRODUCER);
            span.setTag(Tags.MESSAGE_BUS_DESTINATION, kind);
            var headers = new HashMap<String, String>();
            tracer.inject(span.context(), Builtin.TEXT_MAP_INJECT, new TextMapInjectAdapter(headers));
            span.setTag("headers", headers.size());
            span.setOperationName("send by " + kind);
            span.finish(20_000);
            Callable<Integer> count = () -> {
                Span inner = tracer.buildSpan("count").withTag("worker", true).start();
                inner.log(5_000, "counted");
                inner.log(6_000, java.util.Collections.emptyMap().isEmpty() ? "empty" : "full");
                inner.finish();
                return 1;
            };
            count.call();
        }
        Runnable end = parent::finish;
        end.run();
    }
}
