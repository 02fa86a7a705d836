package io.opentelemetry.sdk;

import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.metrics.DoubleHistogramBuilder;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanBuilder;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.propagation.ContextPropagators;
import io.opentelemetry.context.propagation.TextMapGetter;
import io.opentelemetry.context.propagation.TextMapPropagator;
import io.opentelemetry.context.propagation.TextMapSetter;
import java.util.List;
import java.util.Map;
import recorder.Recorder;

/** Records spans and measurements, with the propagation of W3C. */
public final class OpenTelemetrySdk implements OpenTelemetry, TextMapPropagator {
    public static final class Builder {
        public OpenTelemetrySdk buildAndRegisterGlobal() {
            OpenTelemetrySdk sdk = new OpenTelemetrySdk();
            GlobalOpenTelemetry.set(sdk);
            return sdk;
        }
    }

    public static Builder builder() {
        return new Builder();
    }

    @Override
    public Tracer getTracer(String scope) {
        return name -> new SpanBuilder(scope, name);
    }

    @Override
    public Meter getMeter(String scope) {
        return name -> new Histogram(scope, name);
    }

    @Override
    public ContextPropagators getPropagators() {
        return () -> this;
    }

    @Override
    public <C> void inject(Context context, C carrier, TextMapSetter<C> setter) {
        Span span = Span.fromContext(context);
        if (span != null) {
            setter.set(carrier, "traceparent", "00-" + span.trace + "-" + span.id + "-01");
        }
    }

    @Override
    public <C> Context extract(Context context, C carrier, TextMapGetter<C> getter) {
        String value = getter.get(carrier, "traceparent");
        if (value == null) {
            return context;
        }
        String[] parts = value.split("-");
        return context.with(Span.remote(parts[1], parts[2]));
    }

    private record Histogram(String scope, String name, String[] unit, List<?>[] bounds) implements DoubleHistogramBuilder {
        Histogram(String scope, String name) {
            this(scope, name, new String[1], new List<?>[1]);
        }

        @Override
        public DoubleHistogramBuilder setUnit(String unit) {
            this.unit[0] = unit;
            return this;
        }

        @Override
        public DoubleHistogramBuilder setExplicitBucketBoundariesAdvice(List<Double> bounds) {
            this.bounds[0] = bounds;
            return this;
        }

        @Override
        public io.opentelemetry.api.metrics.DoubleHistogram build() {
            return (double value, Attributes attributes, Context context) ->
                    Recorder.write(
                            Map.of(
                                    "metric", name, "unit", unit[0], "scope", scope, "bounds", bounds[0],
                                    "attributes", Recorder.map(attributes), "valid", value >= 0 && value < 60,
                                    "span", Span.fromContext(context).name));
        }
    }
}
