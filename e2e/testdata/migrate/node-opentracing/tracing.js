// SPDX-License-Identifier: Apache-2.0
'use strict'

const { initTracer } = require('jaeger-client')
const opentracing = require('opentracing')

const config = {
  serviceName: 'basket',
  sampler: { type: 'const', param: 1 },
  reporter: { collectorEndpoint: 'http://127.0.0.1:14268/api/traces' },
}

const tracer = initTracer(config, {})
opentracing.initGlobalTracer(tracer)

module.exports = tracer
