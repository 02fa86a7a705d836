import { trace } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import { AlwaysOffSampler, AlwaysOnSampler, BatchSpanProcessor, NodeTracerProvider, ParentBasedSampler, TraceIdRatioBasedSampler } from '@opentelemetry/sdk-trace-node'

// sampler returns the sampler for the types const and probabilistic. OTEL_TRACES_SAMPLER applies without one.
function sampler(config) {
  if (config && config.type === 'const') {
    return new ParentBasedSampler({ root: config.param ? new AlwaysOnSampler() : new AlwaysOffSampler() })
  }
  if (config && config.type === 'probabilistic') {
    return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(config.param) })
  }
  return undefined
}

// initTracer registers a tracer provider and returns a tracer. Spans go to OTEL_EXPORTER_OTLP_ENDPOINT. The tracer has a
// method close, which sends the spans that are left.
export function initTracer(config) {
  const attributes = {}
  if (config.serviceName) attributes['service.name'] = config.serviceName
  if (config.environment) attributes['deployment.environment.name'] = config.environment
  if (config.version) attributes['service.version'] = config.version
  const provider = new NodeTracerProvider({
    resource: defaultResource().merge(detectResources({ detectors: [envDetector] })).merge(resourceFromAttributes(attributes)),
    sampler: sampler(config.sampler),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  })
  provider.register()
  process.once('beforeExit', () => provider.forceFlush().catch(() => {})) // a failed export does not fail the process
  return Object.assign(trace.getTracer(config.serviceName || 'app'), {
    close(done) {
      provider.shutdown().then(() => done && done(), (err) => done && done(err))
    },
  })
}
