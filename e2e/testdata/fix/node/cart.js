// SPDX-License-Identifier: Apache-2.0
'use strict'

const { trace } = require('@opentelemetry/api')

const tracer = trace.getTracer('cart')

// add adds an item to a cart and returns the number of its items.
exports.add = (cart, id, email, item) =>
  tracer.startActiveSpan(`add to cart ${id}`, (span) => {
    span.setAttribute('user.email', email)
    span.setAttribute('cart.items', cart.length + 1)
    cart.push(item)
    span.end()
    return cart.length
  })
