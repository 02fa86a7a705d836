package com.example.encoder;

import brave.Span;
import brave.Tracing;

class Worker {
    void work() {
        if (Tracing.currentTracer().currentSpan() != null) {
            return;
        }
        Span span = Tracing.currentTracer().nextSpan().name("work").start();
        span.remoteServiceName("queue");
        span.finish();
    }
}
