// SPDX-License-Identifier: Apache-2.0
'use strict'

// Calls tools with the SDK for JavaScript: over HTTP if URL is set, else by the program and arguments of the command
// line. Prints what it got as JSON.
const { Client } = require('@modelcontextprotocol/sdk/client/index.js')
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js')
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js')

const main = async () => {
  const [program, ...args] = process.argv.slice(2)
  const transport = process.env.URL
    ? new StreamableHTTPClientTransport(new URL(process.env.URL), { requestInit: { headers: { Authorization: `Bearer ${process.env.KEY}` } } })
    : new StdioClientTransport({ command: program, args })
  const client = new Client({ name: 'e2e', version: '1.0.0' })
  await client.connect(transport)
  const { tools } = await client.listTools()
  const rule = await client.callTool({ name: 'get_rule', arguments: { id: 'SPA-003' } })
  const services = tools.some((t) => t.name === 'list_services') ? await client.callTool({ name: 'list_services', arguments: {} }) : null
  await client.close()
  console.log(JSON.stringify({ server: client.getServerVersion()?.name, tools: tools.map((t) => t.name), rule: rule.structuredContent, services: services?.structuredContent }))
}

main().catch((err) => {
  console.error(err)
  process.exit(1)
})
