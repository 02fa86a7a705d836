package com.example.helper;

import static io.opencensus.trace.AttributeValue.longAttributeValue;

import io.opencensus.common.Scope;
import io.opencensus.trace.AttributeValue;
import io.opencensus.trace.Span;
import io.opencensus.trace.SpanBuilder;
import io.opencensus.trace.Status;
import io.opencensus.trace.Tracer;
import io.opencensus.trace.Tracing;
import java.util.Map;

public class Helper {
    private static final Tracer tracer = Tracing.getTracer();

    public static void main(String[] args) {
        try (Scope ss = tracer.spanBuilder("main").setSpanKind(Span.Kind.SERVER).startScopedSpan()) {
            for (int i = 0; i < 2; i++) {
                work(i);
            }
            tracer.getCurrentSpan().addAnnotation("worked");
        }
        Span root = tracer.spanBuilderWithExplicitParent("root", null).startSpan();
        SpanBuilder builder = tracer.spanBuilderWithExplicitParent("child", root);
        Span child = builder.setSpanKind(Span.Kind.CLIENT).startSpan();
        child.putAttribute("trace", AttributeValue.stringAttributeValue(child.getContext().getTraceId().toLowerBase16()));
        child.putAttribute("span", AttributeValue.stringAttributeValue(child.getContext().getSpanId().toLowerBase16()));
        if (child.getContext().isValid()) {
            tracer.spanBuilderWithRemoteParent("remote", child.getContext()).startSpan().end();
        }
        child.setStatus(Status.NOT_FOUND);
        child.end();
        root.setStatus(Status.OK);
        root.end();
    }

    private static void work(int number) {
        Span span = tracer.spanBuilder("work").startSpan();
        Scope scope = tracer.withSpan(span);
        span.putAttribute("http.method", AttributeValue.stringAttributeValue("GET"));
        span.putAttribute("number", longAttributeValue(number));
        span.putAttribute("ratio", AttributeValue.doubleAttributeValue(0.5));
        span.putAttribute("odd", AttributeValue.booleanAttributeValue(number % 2 == 1));
        span.addAnnotation("Invoking", Map.of("use", AttributeValue.stringAttributeValue("repeat")));
        if (number == 1) {
            span.setStatus(Status.INTERNAL.withDescription("failed " + number));
        }
        scope.close();
        span.end();
    }
}
