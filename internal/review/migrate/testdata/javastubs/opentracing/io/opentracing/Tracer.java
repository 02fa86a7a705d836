package io.opentracing;

import io.opentracing.propagation.Format;
import io.opentracing.tag.Tag;
import java.io.Closeable;

public interface Tracer extends Closeable {
    ScopeManager scopeManager();

    Span activeSpan();

    Scope activateSpan(Span span);

    SpanBuilder buildSpan(String operationName);

    <C> void inject(SpanContext spanContext, Format<C> format, C carrier);

    <C> SpanContext extract(Format<C> format, C carrier);

    @Override
    void close();

    interface SpanBuilder {
        SpanBuilder asChildOf(SpanContext parent);

        SpanBuilder asChildOf(Span parent);

        SpanBuilder addReference(String referenceType, SpanContext referencedContext);

        SpanBuilder ignoreActiveSpan();

        SpanBuilder withTag(String key, String value);

        SpanBuilder withTag(String key, boolean value);

        SpanBuilder withTag(String key, Number value);

        <T> SpanBuilder withTag(Tag<T> tag, T value);

        SpanBuilder withStartTimestamp(long microseconds);

        /** Of versions before 0.32. */
        Span startManual();

        /** Of versions before 0.33. */
        Scope startActive(boolean finishSpanOnClose);

        Span start();
    }
}
