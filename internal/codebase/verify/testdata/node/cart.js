// SPDX-License-Identifier: Apache-2.0
'use strict'

const attribute = (key, value) => ({ key, value: { stringValue: value } })
const hex = (n) => [...Array(n)].map(() => '123456789abcdef'[Math.floor(Math.random() * 15)]).join('')

// add adds an item to a cart and sends a span as OTLP/JSON.
exports.add = async (cart, item) => {
  const start = BigInt(Date.now()) * 1000000n
  cart.push(item)
  const span = {
    traceId: hex(32), spanId: hex(16), kind: 2, name: 'add item',
    startTimeUnixNano: String(start), endTimeUnixNano: String(start + 1000000n),
    attributes: [attribute('user.email', 'jane.doe@shop.example.com')],
  }
  const resource = { attributes: [attribute('service.name', 'cart'), attribute('deployment.environment.name', 'test')] }
  const body = JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ scope: { name: 'cart' }, spans: [span] }] }] })
  const response = await fetch(process.env.OTEL_EXPORTER_OTLP_ENDPOINT + '/v1/traces', {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body,
  })
  if (!response.ok) throw new Error('send spans: ' + response.status)
  return cart.length
}
