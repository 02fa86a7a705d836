// SPDX-License-Identifier: Apache-2.0
'use strict'

const tracing = require('@opencensus/nodejs')
const { ZipkinTraceExporter } = require('@opencensus/exporter-zipkin')

const exporter = new ZipkinTraceExporter({
  url: 'http://127.0.0.1:9411/api/v2/spans',
  serviceName: 'pricing',
})

// The default is one of 10,000 traces.
tracing.start({ samplingRate: 1, exporter, logLevel: 1 })

module.exports = tracing.tracer
