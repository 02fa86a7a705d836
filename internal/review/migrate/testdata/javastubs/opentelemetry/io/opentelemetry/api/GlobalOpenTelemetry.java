package io.opentelemetry.api;

import io.opentelemetry.api.trace.RecordedSpan;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.propagation.ContextPropagators;
import io.opentelemetry.context.propagation.TextMapGetter;
import io.opentelemetry.context.propagation.TextMapPropagator;
import io.opentelemetry.context.propagation.TextMapSetter;

/** Records spans, with the propagation of W3C. */
public final class GlobalOpenTelemetry {
    private static boolean read;

    private GlobalOpenTelemetry() {}

    /** Stands for the registration of an SDK, which fails after the global instance was read. */
    public static void set() {
        if (read) {
            throw new IllegalStateException("GlobalOpenTelemetry.set has already been called");
        }
        read = true;
    }

    public static Tracer getTracer(String instrumentationScopeName) {
        read = true;
        return RecordedSpan.Builder::new;
    }

    public static ContextPropagators getPropagators() {
        read = true;
        return W3C::new;
    }

    private static final class W3C implements TextMapPropagator {
        @Override
        public <C> void inject(Context context, C carrier, TextMapSetter<C> setter) {
            SpanContext span = Span.fromContext(context).getSpanContext();
            setter.set(carrier, "traceparent", "00-" + span.getTraceId() + "-" + span.getSpanId() + "-01");
        }

        @Override
        public <C> Context extract(Context context, C carrier, TextMapGetter<C> getter) {
            String value = getter.get(carrier, "traceparent");
            if (value == null) {
                return context;
            }
            String[] parts = value.split("-");
            return context.with(RecordedSpan.remote(parts[1], parts[2]));
        }
    }
}
