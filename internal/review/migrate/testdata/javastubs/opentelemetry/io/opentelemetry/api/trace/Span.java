package io.opentelemetry.api.trace;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.ImplicitContextKeyed;
import java.util.concurrent.TimeUnit;

public interface Span extends ImplicitContextKeyed {
    static Span current() {
        return fromContext(Context.current());
    }

    static Span fromContext(Context context) {
        return context.value() instanceof Span ? (Span) context.value() : getInvalid();
    }

    static Span getInvalid() {
        return RecordedSpan.INVALID;
    }

    static Span wrap(SpanContext spanContext) {
        return RecordedSpan.remote(spanContext.getTraceId(), spanContext.getSpanId());
    }

    Span setAttribute(String key, String value);

    Span setAttribute(String key, long value);

    Span setAttribute(String key, double value);

    Span setAttribute(String key, boolean value);

    <T> Span setAttribute(AttributeKey<T> key, T value);

    Span addEvent(String name);

    Span addEvent(String name, long timestamp, TimeUnit unit);

    Span addEvent(String name, Attributes attributes);

    Span addEvent(String name, Attributes attributes, long timestamp, TimeUnit unit);

    Span setStatus(StatusCode statusCode);

    Span setStatus(StatusCode statusCode, String description);

    Span recordException(Throwable exception);

    Span recordException(Throwable exception, Attributes additionalAttributes);

    Span updateName(String name);

    void end();

    void end(long timestamp, TimeUnit unit);

    SpanContext getSpanContext();

    boolean isRecording();

    @Override
    default Context storeInContext(Context context) {
        return () -> this;
    }
}
