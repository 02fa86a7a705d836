package io.opentelemetry.context.propagation;

import io.opentelemetry.context.Context;

public interface TextMapPropagator {
    <C> void inject(Context context, C carrier, TextMapSetter<C> setter);

    <C> Context extract(Context context, C carrier, TextMapGetter<C> getter);
}
