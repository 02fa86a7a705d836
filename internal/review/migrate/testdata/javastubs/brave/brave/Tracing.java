package brave;

import brave.handler.SpanHandler;
import brave.sampler.Sampler;
import java.io.Closeable;
import recorder.Recorder;

/** Records the service and the sampler as a span. */
public class Tracing implements Closeable {
    private static final Tracer TRACER = new Tracer();

    public static Builder newBuilder() {
        return new Builder();
    }

    public static Tracer currentTracer() {
        return TRACER;
    }

    public Tracer tracer() {
        return TRACER;
    }

    @Override
    public void close() {}

    public static final class Builder {
        private String service;
        private Sampler sampler;

        public Builder localServiceName(String localServiceName) {
            service = localServiceName;
            return this;
        }

        public Builder sampler(Sampler sampler) {
            this.sampler = sampler;
            return this;
        }

        public Builder addSpanHandler(SpanHandler spanHandler) {
            return this;
        }

        public Builder traceId128Bit(boolean traceId128Bit) {
            return this;
        }

        public Builder supportsJoin(boolean supportsJoin) {
            return this;
        }

        public Tracing build() {
            Recorder setup = new Recorder("setup", "", "");
            if (service != null) {
                setup.tag("service", service);
            }
            if (sampler != null) {
                setup.tag("sampler", sampler.toString());
            }
            return new Tracing();
        }
    }
}
