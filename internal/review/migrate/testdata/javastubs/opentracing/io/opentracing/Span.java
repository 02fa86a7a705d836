package io.opentracing;

import io.opentracing.tag.Tag;
import java.util.Map;

public interface Span {
    SpanContext context();

    Span setTag(String key, String value);

    Span setTag(String key, boolean value);

    Span setTag(String key, Number value);

    <T> Span setTag(Tag<T> tag, T value);

    Span log(Map<String, ?> fields);

    Span log(long timestampMicroseconds, Map<String, ?> fields);

    Span log(String event);

    Span log(long timestampMicroseconds, String event);

    Span setBaggageItem(String key, String value);

    String getBaggageItem(String key);

    Span setOperationName(String operationName);

    void finish();

    void finish(long finishMicros);
}
