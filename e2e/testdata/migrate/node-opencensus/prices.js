// SPDX-License-Identifier: Apache-2.0
'use strict'

const { CanonicalCode, SpanKind } = require('@opencensus/core')
const tracer = require('./tracing.js')

const prices = new Map([['tea', 4]])

// price reads the price of an item.
exports.price = async function price(item) {
  const span = tracer.startChildSpan({ name: 'read price', kind: SpanKind.CLIENT })
  span.addAttribute('db.statement', 'SELECT price')
  await new Promise((resolve) => setImmediate(resolve))
  if (!prices.has(item)) {
    span.setStatus(CanonicalCode.NOT_FOUND, `no price of ${item}`)
  }
  span.addAnnotation('read')
  span.end()
  return prices.get(item)
}

exports.round = function (parentSpan, amount) {
  const span = parentSpan.startChildSpan({ name: 'round' })
  span.setStatus(CanonicalCode.OK)
  span.end()
  return Math.round(amount)
}
