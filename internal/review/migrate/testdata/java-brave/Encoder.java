package com.example.encoder;

import brave.ScopedSpan;
import brave.Span;
import brave.SpanCustomizer;
import brave.Tracer;
import brave.Tracer.SpanInScope;
import brave.Tracing;
import brave.sampler.Sampler;
import zipkin2.reporter.brave.AsyncZipkinSpanHandler;
import zipkin2.reporter.urlconnection.URLConnectionSender;

public class Encoder {
    private final Tracer tracer;

    Encoder(Tracer tracer) {
        this.tracer = tracer;
    }

    public static void main(String[] args) {
        URLConnectionSender sender = URLConnectionSender.create("http://zipkin:9411/api/v2/spans");
        AsyncZipkinSpanHandler handler = AsyncZipkinSpanHandler.create(sender);
        Tracing tracing = Tracing.newBuilder()
                .localServiceName("encoder")
                .sampler(Sampler.create(0.5f))
                .addSpanHandler(handler)
                .traceId128Bit(true)
                .supportsJoin(false)
                .build();
        new Encoder(tracing.tracer()).run();
        new Worker().work();
        tracing.close();
        handler.close();
        sender.close();
    }

    void run() {
        Span span = tracer.nextSpan()
                .name("encode")
                .kind(Span.Kind.SERVER)
                .tag("http.path", "/encode")
                .start();
        try (SpanInScope ws = tracer.withSpanInScope(span)) {
            step("first");
            step("");
            tracer.currentSpanCustomizer().tag("steps", "2");
            SpanCustomizer current = tracer.currentSpan();
            current.annotate("encoded");
        } catch (RuntimeException e) {
            span.error(e);
        } finally {
            span.finish();
        }
        Span root = tracer.newTrace().name("cleanup").start(1_000L);
        Span child = tracer.newChild(root.context()).name("delete").kind(Span.Kind.CLIENT).remoteServiceName("disk").start();
        child.annotate(2_000L, "deleted");
        child.tag("trace", child.context().traceIdString()).tag("span", child.context().spanIdString());
        child.name("delete all").finish(3_000L);
        root.finish();
    }

    private void step(String text) {
        ScopedSpan span = tracer.startScopedSpan("step");
        try {
            span.annotate("begin").tag("text", text).name("step " + text.length());
            if (text.isEmpty()) {
                span.tag("error", "no text");
                throw new IllegalArgumentException("no text");
            }
        } catch (IllegalArgumentException e) {
            span.error(e);
        } finally {
            span.finish();
        }
    }
}
