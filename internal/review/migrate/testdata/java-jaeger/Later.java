package com.example.hello;

import io.opentracing.Tracer;
import io.opentracing.util.GlobalTracer;

class Later {
    private static final Tracer tracer = GlobalTracer.get();

    static void say() {
        tracer.buildSpan("later").start().finish();
    }
}
