// SPDX-License-Identifier: Apache-2.0
'use strict'

const { after, test } = require('node:test')
const assert = require('node:assert')
const { flush } = require('./telemetry.js')
const { add } = require('./cart.js')

after(flush)

test('adds items', () => {
  for (let n = 0; n < 1200; n++) {
    assert.strictEqual(add(['tea'], n, 'jane.doe@shop.example.com', 'milk'), 2)
  }
})
