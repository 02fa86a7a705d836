package io.opentelemetry.api.metrics;

import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.context.Context;

public interface DoubleHistogram {
    void record(double value, Attributes attributes, Context context);
}
