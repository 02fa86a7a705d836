package com.example.env;

import io.opentracing.Tracer;
import io.opentracing.util.GlobalTracer;

public class App {
    public static void main(String[] args) {
        io.jaegertracing.Configuration.SamplerConfiguration sampler = new io.jaegertracing.Configuration.SamplerConfiguration().withType("probabilistic").withParam(0.25);
        Tracer tracer = io.jaegertracing.Configuration.fromEnv("env" + args.length)
                .withSampler(sampler)
                .withReporter(io.jaegertracing.Configuration.ReporterConfiguration.fromEnv().withFlushInterval(1000).withMaxQueueSize(100)
                        .withSender(io.jaegertracing.Configuration.SenderConfiguration.fromEnv().withEndpoint("http://jaeger:14268/api/traces")))
                .withTraceId128Bit(true)
                .getTracer();
        GlobalTracer.register(tracer);
        tracer.buildSpan("work").start().finish();
        tracer.close();
    }
}
