'use strict';

// Sets up an SDK that keeps spans and metrics, and writes them to the file TELEMETRY when the program has no more to do.
const fs = require('node:fs');
const { metrics, SpanKind, SpanStatusCode } = require('@opentelemetry/api');
const { W3CTraceContextPropagator } = require('@opentelemetry/core');
const { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } = require('@opentelemetry/sdk-trace-node');
const { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } = require('@opentelemetry/sdk-metrics');

const spans = new InMemorySpanExporter();
new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }).register({
  propagator: new W3CTraceContextPropagator(), // a composite propagator hides errors
});
const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2 ** 30 });
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));

const sorted = (attributes) => JSON.stringify(attributes, Object.keys(attributes).sort()).replace(/("server.port":)\d{2,}/g, '$1"PORT"');

process.once('beforeExit', async () => {
  await reader.forceFlush();
  const all = spans.getFinishedSpans();
  const names = new Map(all.map((span) => [span.spanContext().spanId, span.name]));
  const lines = all.map((span) => {
    const parent = span.parentSpanContext && (names.get(span.parentSpanContext.spanId) ?? `remote ${span.parentSpanContext.spanId}`);
    const events = span.events.map((event) => ` ${event.name} ${event.attributes['exception.type']}`).join('');
    return `${SpanKind[span.kind]} "${span.name}" ${sorted(span.attributes)} parent ${parent ?? 'none'} ${SpanStatusCode[span.status.code]}${events}`;
  });
  for (const { descriptor, dataPoints } of exporter.getMetrics().at(-1)?.scopeMetrics.flatMap((scope) => scope.metrics) ?? []) {
    for (const { attributes, value } of dataPoints) {
      lines.push(`${descriptor.name} {${descriptor.unit}} ${sorted(attributes)} count ${value.count} boundaries ${value.buckets.boundaries}`);
    }
  }
  fs.writeFileSync(process.env.TELEMETRY, lines.map((line) => `${line.replaceAll(/http:\/\/127.0.0.1:\d{2,}/g, 'http://127.0.0.1:PORT')}\n`).sort().join(''));
});
