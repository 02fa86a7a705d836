// SPDX-License-Identifier: Apache-2.0
'use strict'

const opentracing = require('opentracing')
const { Tags } = opentracing

const items = new Map()

// save keeps an item.
exports.save = (parentSpan, id) => {
  const span = opentracing.globalTracer().startSpan('save', {
    childOf: parentSpan,
    tags: {
      [Tags.SPAN_KIND]: Tags.SPAN_KIND_RPC_CLIENT,
      'db.type': 'sql',
      [Tags.DB_STATEMENT]: 'INSERT INTO items VALUES (?)', // with a parameter
    },
  })
  items.set(id, 'kept')
  span.log({ event: 'saved', rows: items.size })
  span.finish()
}
