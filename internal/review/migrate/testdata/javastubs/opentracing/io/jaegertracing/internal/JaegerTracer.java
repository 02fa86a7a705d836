package io.jaegertracing.internal;

import io.opentracing.Tracer;

public interface JaegerTracer extends Tracer {}
