package io.opentelemetry.api.metrics;

import java.util.List;

public interface DoubleHistogramBuilder {
    DoubleHistogramBuilder setUnit(String unit);

    DoubleHistogramBuilder setExplicitBucketBoundariesAdvice(List<Double> bounds);

    DoubleHistogram build();
}
