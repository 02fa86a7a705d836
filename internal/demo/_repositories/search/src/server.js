const express = require('express');
const { trace, metrics, SpanStatusCode } = require('@opentelemetry/api');
const { lookup } = require('./lookup');

const tracer = trace.getTracer('search');
const meter = metrics.getMeter('search');
const latency = meter.createHistogram('search.latency', { unit: 's' });
const app = express();

app.get('/search/:id', (req, res) => {
  tracer.startActiveSpan(`GET /search/${req.params.id}`, async (span) => {
    const began = performance.now();
    try {
      res.json(await lookup(req.params.id));
    } catch (err) {
      span.recordException(err);
      span.setStatus({ code: SpanStatusCode.ERROR });
      res.status(500).end();
    } finally {
      latency.record((performance.now() - began) / 1000, { 'search.query.id': req.params.id });
      span.end();
    }
  });
});

app.listen(8080);
