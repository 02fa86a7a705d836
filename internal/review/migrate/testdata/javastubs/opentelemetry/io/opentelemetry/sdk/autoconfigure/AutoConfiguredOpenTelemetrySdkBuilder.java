package io.opentelemetry.sdk.autoconfigure;

import io.opentelemetry.api.GlobalOpenTelemetry;
import java.util.Map;
import java.util.function.Supplier;
import recorder.Recorder;

/** Records the service and the sampler as a span. */
public final class AutoConfiguredOpenTelemetrySdkBuilder {
    private Map<String, String> properties = Map.of();
    private boolean global;

    AutoConfiguredOpenTelemetrySdkBuilder() {}

    public AutoConfiguredOpenTelemetrySdkBuilder addPropertiesSupplier(Supplier<Map<String, String>> propertiesSupplier) {
        properties = propertiesSupplier.get();
        return this;
    }

    public AutoConfiguredOpenTelemetrySdkBuilder setResultAsGlobal() {
        global = true;
        return this;
    }

    public AutoConfiguredOpenTelemetrySdk build() {
        if (global) {
            GlobalOpenTelemetry.set();
        }
        Recorder setup = new Recorder("setup", "", "");
        if (properties.containsKey("otel.service.name")) {
            setup.tag("service", properties.get("otel.service.name"));
        }
        String sampler = properties.getOrDefault("otel.traces.sampler", "");
        switch (sampler) {
            case "parentbased_always_on":
                setup.tag("sampler", "const 1");
                break;
            case "parentbased_always_off":
                setup.tag("sampler", "const 0");
                break;
            case "parentbased_traceidratio":
                setup.tag("sampler", "probabilistic " + properties.get("otel.traces.sampler.arg"));
                break;
            default:
        }
        return new AutoConfiguredOpenTelemetrySdk();
    }
}
