package com.example.shop;

import static io.opentracing.tag.Tags.HTTP_URL;

import io.opentracing.References;
import io.opentracing.Scope;
import io.opentracing.Span;
import io.opentracing.SpanContext;
import io.opentracing.Tracer;
import io.opentracing.log.Fields;
import io.opentracing.propagation.Format;
import io.opentracing.propagation.TextMapAdapter;
import io.opentracing.tag.Tags;
import io.opentracing.util.GlobalTracer;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Takes orders. A Span of each order is traced, "Span" by "Span". */
public class Shop {
    private static final String ITEMS = "order.items";

    private final Tracer tracer;
    private final Store store;

    Shop(Tracer tracer) {
        this.tracer = tracer;
        this.store = new Store(tracer);
    }

    public static void main(String[] args) throws Exception {
        Shop shop = new Shop(GlobalTracer.get());
        Map<String, String> headers = new HashMap<>();
        shop.order(headers, List.of("book", "pen"));
        headers.put("Traceparent", "00-000000000000000000000000000000aa-00000000000000bb-01");
        shop.order(headers, List.of());
        new Notifier().send(shop.tracer, "mail");
        Batch.run();
    }

    void order(Map<String, String> headers, List<String> items) {
        SpanContext parent = tracer.extract(Format.Builtin.HTTP_HEADERS, new TextMapAdapter(headers));
        Tracer.SpanBuilder builder = tracer.buildSpan("POST /orders");
        if (parent != null) {
            builder = builder.addReference(References.CHILD_OF, parent);
        }
        Span span = builder
                .withTag(Tags.SPAN_KIND.getKey(), Tags.SPAN_KIND_SERVER)
                .withTag(HTTP_URL.getKey(), "http://shop.example/orders") // as requested
                .withTag("order.express", true)
                .start();
        try (Scope scope = tracer.activateSpan(span)) {
            span.setTag(ITEMS, items.size()).setTag("order.customer", "c1");
            span.log(Map.of(Fields.EVENT, "validated", "checks", 2, "empty", items.isEmpty()));
            save(items);
            Tags.HTTP_STATUS.set(span, 201);
        } catch (IOException e) {
            Tags.ERROR.set(span, true);
            span.log(Map.of(
                    Fields.EVENT, "error",
                    Fields.ERROR_OBJECT, e,
                    Fields.MESSAGE, e.getMessage(),
                    "order.retry", false));
        } finally {
            span.finish();
        }
    }

    private void save(List<String> items) throws IOException {
        if (tracer.activeSpan() == null) {
            return;
        }
        for (String item : items) {
            store.save(tracer.activeSpan().context(), item);
        }
        if (items.isEmpty()) {
            throw new IOException("nothing ordered");
        }
    }
}
