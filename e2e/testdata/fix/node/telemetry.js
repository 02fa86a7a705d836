// SPDX-License-Identifier: Apache-2.0
'use strict'

const { NodeTracerProvider, BatchSpanProcessor } = require('@opentelemetry/sdk-trace-node')
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-http')
const { resourceFromAttributes } = require('@opentelemetry/resources')

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({
    'service.name': 'cart',
    'service.version': '1.0.0',
    'service.instance.id': '627cc493-f310-47de-96bd-71410b7dec09',
    'deployment.environment.name': 'test',
  }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter(), { maxQueueSize: 4096 })],
})
provider.register()

exports.flush = () => provider.shutdown()
