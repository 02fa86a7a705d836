package io.jaegertracing;

import io.jaegertracing.internal.JaegerTracer;
import io.opentracing.Tracer;
import io.opentracing.util.GlobalTracer;
import java.lang.reflect.Proxy;
import recorder.Recorder;

/** Records the service and the sampler as a span. */
public class Configuration {
    private String service;
    private SamplerConfiguration sampler;

    public Configuration(String serviceName) {
        service = serviceName;
    }

    public static Configuration fromEnv() {
        return new Configuration(null);
    }

    public static Configuration fromEnv(String serviceName) {
        return new Configuration(serviceName);
    }

    public Configuration withServiceName(String serviceName) {
        service = serviceName;
        return this;
    }

    public Configuration withSampler(SamplerConfiguration samplerConfig) {
        sampler = samplerConfig;
        return this;
    }

    public Configuration withReporter(ReporterConfiguration reporterConfig) {
        return this;
    }

    public Configuration withTraceId128Bit(boolean useTraceId128Bit) {
        return this;
    }

    public synchronized JaegerTracer getTracer() {
        Recorder setup = new Recorder("setup", "", "");
        if (service != null) {
            setup.tag("service", service);
        }
        if (sampler != null && sampler.type != null) {
            setup.tag("sampler", sampler.type + " " + sampler.param);
        }
        Tracer tracer = GlobalTracer.get();
        return (JaegerTracer) Proxy.newProxyInstance(Configuration.class.getClassLoader(), new Class<?>[] {JaegerTracer.class}, (p, method, args) -> method.invoke(tracer, args));
    }

    public static class SamplerConfiguration {
        private String type;
        private Number param;

        public static SamplerConfiguration fromEnv() {
            return new SamplerConfiguration();
        }

        public SamplerConfiguration withType(String type) {
            this.type = type;
            return this;
        }

        public SamplerConfiguration withParam(Number param) {
            this.param = param;
            return this;
        }
    }

    public static class ReporterConfiguration {
        public static ReporterConfiguration fromEnv() {
            return new ReporterConfiguration();
        }

        public ReporterConfiguration withLogSpans(Boolean logSpans) {
            return this;
        }

        public ReporterConfiguration withFlushInterval(Integer flushInterval) {
            return this;
        }

        public ReporterConfiguration withMaxQueueSize(Integer maxQueueSize) {
            return this;
        }

        public ReporterConfiguration withSender(SenderConfiguration senderConfiguration) {
            return this;
        }
    }

    public static class SenderConfiguration {
        public static SenderConfiguration fromEnv() {
            return new SenderConfiguration();
        }

        public SenderConfiguration withAgentHost(String agentHost) {
            return this;
        }

        public SenderConfiguration withAgentPort(Integer agentPort) {
            return this;
        }

        public SenderConfiguration withEndpoint(String endpoint) {
            return this;
        }
    }
}
