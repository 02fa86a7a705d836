package io.opentelemetry.api.metrics;

public interface Meter {
    DoubleHistogramBuilder histogramBuilder(String name);
}
