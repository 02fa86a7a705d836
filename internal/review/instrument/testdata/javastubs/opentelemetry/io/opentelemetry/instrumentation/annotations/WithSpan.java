package io.opentelemetry.instrumentation.annotations;

import io.opentelemetry.api.trace.SpanKind;

public @interface WithSpan {
    String value();

    SpanKind kind();
}
