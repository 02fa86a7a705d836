// SPDX-License-Identifier: Apache-2.0

// Runs the JavaScript of remediations, a JSON object on standard input, by name. What it uses of OpenTelemetry is
// real, except for NodeSDK, of which only the options for resources and views are applied, and for
// ExpressInstrumentation, whose options are checked. The rest of an application accepts everything.
const { trace, metrics } = require('@opentelemetry/api');
const { SeverityNumber } = require('@opentelemetry/api-logs');
const resources = require('@opentelemetry/resources');
const { LoggerProvider } = require('@opentelemetry/sdk-logs');
const sdkMetrics = require('@opentelemetry/sdk-metrics');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

trace.setGlobalTracerProvider(new NodeTracerProvider());
metrics.setGlobalMeterProvider(new sdkMetrics.MeterProvider());

class NodeSDK {
  constructor({ resource, resourceDetectors = [], views = [], serviceName, ...unknown }) {
    if (Object.keys(unknown).length > 0) throw new Error(`unknown options of NodeSDK: ${Object.keys(unknown)}`);
    if (serviceName !== undefined && typeof serviceName !== 'string') throw new Error('serviceName');
    resources.detectResources({ detectors: resourceDetectors });
    new sdkMetrics.MeterProvider({ resource, views });
  }
  async shutdown() {}
}

class ExpressInstrumentation {
  constructor({ ignoreLayersType = [], ...unknown }) {
    if (Object.keys(unknown).length > 0) throw new Error(`unknown options of ExpressInstrumentation: ${Object.keys(unknown)}`);
    for (const layer of ignoreLayersType) {
      if (!['middleware', 'router', 'request_handler'].includes(layer)) throw new Error(`no type of layer: ${layer}`);
    }
  }
}

const anything = new Proxy(() => {}, {
  get: (_, key) => (key === 'then' ? undefined : key === Symbol.toPrimitive ? () => 'x' : anything),
  apply: () => anything,
});

const names = {
  NodeSDK, ExpressInstrumentation, SeverityNumber, ...resources,
  createAllowListAttributesProcessor: sdkMetrics.createAllowListAttributesProcessor,
  createDenyListAttributesProcessor: sdkMetrics.createDenyListAttributesProcessor,
  tracer: trace.getTracer('snippets'), meter: metrics.getMeter('snippets'), span: trace.getTracer('snippets').startSpan('x'),
  logger: Object.assign(new LoggerProvider().getLogger('snippets'), { info() {}, warn() {} }),
  sdk: new NodeSDK({}), randomUUID: require('node:crypto').randomUUID, hostname: require('node:os').hostname,
  process: Object.assign(() => {}, { env: {}, on() {}, exit() {} }),
  fetch: async () => {}, price() {}, pino: anything, db: anything,
  items: [1], ids: ['1'], start: 0, code: 200, env: 'production', url: 'http://example.com', email: 'a@example.com',
  user: { id: '1' }, order: { id: '1' }, request: { method: 'GET' },
};

const AsyncFunction = (async () => {}).constructor;

(async () => {
  const all = JSON.parse(require('node:fs').readFileSync(0, 'utf8'));
  for (const [name, code] of Object.entries(all)) {
    const declared = [...code.matchAll(/^(?:const|let) (\w+)/gm)].map((m) => m[1]);
    const given = Object.keys(names).filter((n) => !declared.includes(n));
    const values = given.map((n) => names[n]);
    try {
      await new AsyncFunction(...given, `'use strict';\n${code}`)(...values);
    } catch (e) {
      console.error(`${name}: ${e.stack}\n${code}`);
      process.exitCode = 1;
    }
  }
})();
