// SPDX-License-Identifier: Apache-2.0
const tracer = require('dd-trace')

exports.run = function run(items, done) {
  const span = tracer.startSpan('batch', { tags: { 'resource.name': 'batch run', 'batch.size': items.length } })
  tracer.scope().activate(span, () => {
    items.forEach((i) => {
      const child = tracer.startSpan('batch.item', { childOf: span })
      child.addTags({ id: i.id, ok: true })
      child.finish()
    })
    done(null, items.length)
  })
  span.finish()
}
