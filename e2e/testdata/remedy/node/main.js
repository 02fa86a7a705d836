// SPDX-License-Identifier: Apache-2.0
'use strict'

// A server's work with the usual mistakes in its telemetry.
const { SpanKind } = require('@opentelemetry/api')
const { SeverityNumber } = require('@opentelemetry/api-logs')
const { OTLPLogExporter } = require('@opentelemetry/exporter-logs-otlp-http')
const { OTLPMetricExporter } = require('@opentelemetry/exporter-metrics-otlp-http')
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-http')
const { detectResources, envDetector, defaultResource } = require('@opentelemetry/resources')
const { LoggerProvider, SimpleLogRecordProcessor } = require('@opentelemetry/sdk-logs')
const { MeterProvider, PeriodicExportingMetricReader } = require('@opentelemetry/sdk-metrics')
const { BatchSpanProcessor, NodeTracerProvider } = require('@opentelemetry/sdk-trace-node')

const resource = defaultResource().merge(detectResources({ detectors: [envDetector] }))
const tracers = new NodeTracerProvider({
  resource,
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter(), { maxQueueSize: 4096 })],
})
const meters = new MeterProvider({
  resource,
  readers: [new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter() })],
})
const loggers = new LoggerProvider({ resource, processors: [new SimpleLogRecordProcessor({ exporter: new OTLPLogExporter() })] })

const tracer = tracers.getTracer('shop')
const meter = meters.getMeter('shop')
const logger = loggers.getLogger('shop')
const duration = meter.createHistogram('checkout.duration.seconds', { unit: 's' })
const requests = meter.createCounter('checkout.requests')

for (let i = 0; i < 1200; i++) {
  const request = { method: 'GET' }
  const order = { id: String(i) }
  const user = { id: String(i), email: `jane.doe.${i}@example.com` }
  const started = performance.now()
  tracer.startActiveSpan(`process order ${order.id}`, { kind: SpanKind.SERVER }, (span) => {
    span.setAttribute('http.method', request.method)
    span.setAttribute('user.email', user.email)
    if (i % 100 === 0) {
      logger.emit({ severityText: 'ERROR', body: `payment failed for ${user.email}` })
    }
    requests.add(1)
    duration.record((performance.now() - started) / 1000)
    span.end()
  })
}

Promise.all([tracers.shutdown(), meters.shutdown(), loggers.shutdown()])
