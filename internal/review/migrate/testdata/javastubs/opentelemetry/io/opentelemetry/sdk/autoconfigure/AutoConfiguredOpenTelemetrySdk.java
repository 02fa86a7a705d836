package io.opentelemetry.sdk.autoconfigure;

import io.opentelemetry.sdk.OpenTelemetrySdk;

public final class AutoConfiguredOpenTelemetrySdk {
    AutoConfiguredOpenTelemetrySdk() {}

    public static AutoConfiguredOpenTelemetrySdkBuilder builder() {
        return new AutoConfiguredOpenTelemetrySdkBuilder();
    }

    public OpenTelemetrySdk getOpenTelemetrySdk() {
        return new OpenTelemetrySdk();
    }
}
