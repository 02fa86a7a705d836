// These start spans themselves.
const { trace, SpanKind } = require('@opentelemetry/api');
const mqtt = require('mqtt');
const cron = require('node-cron');
const { withSpan } = require('./with-span');
const { report } = require('./report');

const tracer = trace.getTracer('left');

mqtt.connect('mqtt://a').on('message', (topic) => {
  tracer.startActiveSpan('process', { kind: SpanKind.CONSUMER }, (span) => span.end());
});
cron.schedule('0 * * * *', withSpan('cleanup', async () => {}));
cron.schedule('1 * * * *', report);
cron.schedule('2 * * * *', local);
function local() {
  const span = tracer.startSpan('local');
  span.end();
}
cron.schedule('3 * * * *', () => rotate());
