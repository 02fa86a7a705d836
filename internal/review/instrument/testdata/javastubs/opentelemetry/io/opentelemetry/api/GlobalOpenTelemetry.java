package io.opentelemetry.api;

/** The global instance, which is registered once and before it is read with get. */
public final class GlobalOpenTelemetry {
    private static OpenTelemetry instance;

    private GlobalOpenTelemetry() {}

    public static synchronized boolean isSet() {
        return instance != null;
    }

    public static synchronized OpenTelemetry get() {
        if (instance == null) {
            throw new IllegalStateException("read before it was set");
        }
        return instance;
    }

    public static synchronized OpenTelemetry getOrNoop() {
        return get();
    }

    public static synchronized void set(OpenTelemetry openTelemetry) {
        if (instance != null) {
            throw new IllegalStateException("GlobalOpenTelemetry.set has already been called");
        }
        instance = openTelemetry;
    }
}
