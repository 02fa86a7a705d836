package com.example.stock;

import io.opentracing.Scope;
import io.opentracing.Span;
import io.opentracing.Tracer;
import io.opentracing.tag.Tags;
import io.opentracing.util.GlobalTracer;

public class Stock {
    private final Tracer tracer = GlobalTracer.get();

    public static void main(String[] args) {
        new Stock().count(3);
    }

    int count(int shelves) {
        int found = 0;
        try (Scope scope = tracer.buildSpan("count").startActive(true)) {
            scope.span().setTag("shelves", shelves);
            Tags.SPAN_KIND.set(scope.span(), Tags.SPAN_KIND_SERVER);
            for (int i = 0; i < shelves; i++) {
                found += shelf(i);
            }
            check(found);
        }
        return found;
    }

    private int shelf(int number) {
        try (Scope inner = tracer.buildSpan("shelf").withTag("shelf", number).startActive(true)) {
            tracer.scopeManager().active().span().log("counted");
            if (number == 2) {
                throw new IllegalStateException("empty shelf");
            }
            return number;
        } catch (IllegalStateException e) {
            return 0;
        } finally {
            tracer.activeSpan().setTag("last", number);
        }
    }

    private void check(int found) {
        Span parent = tracer.activeSpan();
        try (Scope scope = tracer.buildSpan("check").asChildOf(parent).startActive(false)) {
            Span span = scope.span();
            span.setTag("found", found);
            span.finish();
        }
        try (Scope scope = tracer.buildSpan("again").startActive(true)) {
            scope.span().setOperationName("check again");
        }
    }
}
