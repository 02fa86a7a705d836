// SPDX-License-Identifier: Apache-2.0
'use strict'

const { BatchRecorder, Tracer, jsonEncoder: { JSON_V2 } } = require('zipkin')
const CLSContext = require('zipkin-context-cls')
const { HttpLogger } = require('zipkin-transport-http')

const recorder = new BatchRecorder({
  logger: new HttpLogger({ endpoint: 'http://127.0.0.1:9411/api/v2/spans', httpInterval: 50, jsonEncoder: JSON_V2 }),
})

module.exports = new Tracer({
  ctxImpl: new CLSContext('zipkin', true),
  recorder,
  localServiceName: 'parcels',
  traceId128Bit: true,
})
