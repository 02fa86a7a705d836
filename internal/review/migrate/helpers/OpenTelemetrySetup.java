import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import java.util.HashMap;
import java.util.Map;

/** Sets up the OpenTelemetry SDK. Variables OTEL_* and properties otel.* replace what is set here. */
final class OpenTelemetrySetup {
    private static OpenTelemetrySdk sdk;

    private OpenTelemetrySetup() {}

    /** Registers the SDK when it is called first. Arguments that are null come from the environment. */
    static synchronized OpenTelemetrySdk newSdk(String service, String sampler, String argument) {
        if (sdk == null) {
            Map<String, String> properties = new HashMap<>();
            properties.put("otel.metrics.exporter", "none");
            properties.put("otel.logs.exporter", "none");
            if (service != null) {
                properties.put("otel.service.name", service);
            }
            if (sampler != null) {
                properties.put("otel.traces.sampler", sampler);
            }
            if (argument != null) {
                properties.put("otel.traces.sampler.arg", argument);
            }
            sdk = AutoConfiguredOpenTelemetrySdk.builder()
                    .addPropertiesSupplier(() -> properties)
                    .setResultAsGlobal()
                    .build()
                    .getOpenTelemetrySdk();
        }
        return sdk;
    }
}
