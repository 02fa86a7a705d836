package com.example.hello;

import io.jaegertracing.internal.JaegerTracer;
import io.opentracing.Scope;
import io.opentracing.Span;
import io.opentracing.Tracer;
import io.opentracing.util.GlobalTracer;

public class Hello {
    private final Tracer tracer;

    private Hello(Tracer tracer) {
        this.tracer = tracer;
    }

    public static void main(String[] args) {
        try (JaegerTracer tracer = Tracing.init("hello-world")) {
            GlobalTracer.registerIfAbsent(tracer);
            new Hello(tracer).say("Bryan");
            Later.say();
        }
    }

    private void say(String name) {
        Span span = tracer.buildSpan("say-hello").start();
        try (Scope scope = tracer.activateSpan(span)) {
            span.setTag("hello-to", name);
        } finally {
            span.finish();
        }
    }
}
