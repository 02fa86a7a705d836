// SPDX-License-Identifier: Apache-2.0
'use strict'

const { SpanKind } = require('@opencensus/core')
const tracer = require('./tracing.js')
const { price, round } = require('./prices.js')

// quote answers a request.
function quote(item) {
  return tracer.startRootSpan({ name: 'GET /quote', kind: SpanKind.SERVER }, async (root) => {
    root.addAttribute('http.method', 'GET')
    root.addAttribute('items', 1)
    const amount = await price(item)
    const sum = tracer.startChildSpan({ name: 'sum', childOf: root })
    sum.addAnnotation('rounded', { amount: round(sum, amount || 0) }, Date.now())
    sum.end()
    root.name = 'GET /quote/{item}'
    tracer.currentRootSpan.addAttribute('quoted', amount !== undefined)
    root.end() // the last statement
    return root.traceId
  })
}

const refresh = { name: 'refresh' }

quote('tea')
  .then(() => quote('milk'))
  .then(() => tracer.startRootSpan(refresh, (span) => setImmediate(tracer.wrap(() => {
    tracer.startChildSpan().end()
    span.end()
  }))))
