// SPDX-License-Identifier: Apache-2.0
'use strict'

const http = require('node:http')
const opentracing = require('opentracing')
const tracer = require('./tracing.js')
const { save } = require('./store.js')

const { FORMAT_HTTP_HEADERS, Tags } = opentracing

// add answers a request.
function add(req, res) {
  const parentContext = tracer.extract(FORMAT_HTTP_HEADERS, req.headers)
  const span = tracer.startSpan('POST /items', { childOf: parentContext })
  span.setTag(Tags.SPAN_KIND, Tags.SPAN_KIND_RPC_SERVER)
  span.setTag(Tags.HTTP_URL, req.url)
  try {
    save(span, 'i-1')
    throw new Error('basket is full')
  } catch (err) {
    span.setTag(Tags.ERROR, true)
    span.log({ event: 'error', 'error.object': err, message: err.message })
  } finally {
    span.finish()
  }
  res.statusCode = 409
  res.end()
}

// post sends an item.
function post(span, port) {
  const headers = {}
  tracer.inject(span, FORMAT_HTTP_HEADERS, headers)
  return new Promise((resolve, reject) => {
    const req = http.request({ host: '127.0.0.1', port, path: '/items', method: 'POST', headers }, (res) => {
      res.resume()
      res.on('end', () => resolve(res.statusCode))
    })
    req.on('error', reject)
    req.end()
  })
}

const server = http.createServer(add).listen(0, '127.0.0.1', async () => {
  const span = tracer.startSpan('checkout')
  span.addTags({ 'http.method': 'POST', items: 2, 'customer.tier': 'gold' })
  const child = tracer.startSpan('request', { childOf: span.context(), tags: { 'span.kind': 'client', 'peer.hostname': 'basket' } })
  child.setTag('http.status_code', await post(child, server.address().port))
  child.finish()
  span.setOperationName('checkout basket')
  span.finish()
  server.close()
  tracer.close(() => {})
})
