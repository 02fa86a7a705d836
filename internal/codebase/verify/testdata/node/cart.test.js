// SPDX-License-Identifier: Apache-2.0
'use strict'

const test = require('node:test')
const assert = require('node:assert')
const { add } = require('./cart.js')

test('add', async () => {
  assert.strictEqual(await add([], 'book'), 1)
})
