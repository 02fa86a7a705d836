// SPDX-License-Identifier: Apache-2.0
'use strict'

const tracer = require('dd-trace').init({
  service: 'mail',
  env: 'test',
  version: '1.0.0',
  logInjection: false,
})

// send sends a mail.
function send(parentSpan, to) {
  const span = tracer.startSpan('mail.send', {
    childOf: parentSpan,
    tags: { 'resource.name': 'send welcome', 'span.kind': 'producer', 'messaging.system': 'smtp' },
  })
  try {
    if (!to.includes('@')) throw new Error('no address')
    span.setTag('mail.domain', to.split('@')[1])
  } catch (err) {
    span.setTag('error', err)
  } finally {
    span.finish()
  }
}

const span = tracer.startSpan('batch')
span.addTags({ mails: 2, list: 'weekly' })
const carrier = {}
tracer.inject(span, 'text_map', carrier)
tracer.scope().activate(span, () => {
  send(tracer.scope().active(), 'jane@example.com')
  send(span, 'nowhere')
})
const later = tracer.startSpan('retry', { childOf: tracer.extract('text_map', carrier) })
later.setTag('resource.name', 'retry welcome')
later.finish()
span.finish()
