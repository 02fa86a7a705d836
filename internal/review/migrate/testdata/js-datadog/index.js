// SPDX-License-Identifier: Apache-2.0
const tracer = require('dd-trace')
tracer.init({ service: 'mailer', sampleRate: 0.5 }) // before other modules
const express = require('express')
const { run } = require('./batch')

function wrap(f) {
  return f
}

const send = tracer.wrap('mailer.send', { resource: 'send', type: 'worker', service: 'mailer' }, async function send(to, body) {
  const span = tracer.scope().active()
  span?.setTag('mail.size', body.length)
  return smtp(to, body)
})

async function smtp(to, body) {
  return tracer.trace('smtp.send', { tags: { 'smtp.host': 'mx' }, type: 'http' }, async (span) => {
    span.setTag('mail.to', to)
    return body
  })
}

const read = tracer.wrap('mailer.read', (name, done) => done(name === '' ? new Error('no name') : null, name))

const app = express()
app.get('/', (req, res) => tracer.trace('render', () => res.json(wrap({}))))
app.get('/later', tracer.scope().bind((req, res) => {
  tracer.trace('later', { childOf: tracer.scope().active() }, (span, done) => setImmediate(() => done()))
  res.end()
}))

module.exports = { tracer, send, read, run }
