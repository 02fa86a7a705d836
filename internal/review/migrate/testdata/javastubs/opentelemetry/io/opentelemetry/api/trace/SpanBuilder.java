package io.opentelemetry.api.trace;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.context.Context;
import java.util.concurrent.TimeUnit;

public interface SpanBuilder {
    SpanBuilder setParent(Context context);

    SpanBuilder setNoParent();

    SpanBuilder setAttribute(String key, String value);

    SpanBuilder setAttribute(String key, long value);

    SpanBuilder setAttribute(String key, double value);

    SpanBuilder setAttribute(String key, boolean value);

    <T> SpanBuilder setAttribute(AttributeKey<T> key, T value);

    SpanBuilder setSpanKind(SpanKind spanKind);

    SpanBuilder setStartTimestamp(long startTimestamp, TimeUnit unit);

    Span startSpan();
}
