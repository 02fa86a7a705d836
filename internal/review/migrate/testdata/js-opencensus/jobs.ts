// SPDX-License-Identifier: Apache-2.0
import { EventEmitter } from 'node:events';
import { Span, SpanKind } from '@opencensus/core';
import tracing from '@opencensus/nodejs-base';

export function run(emitter: EventEmitter, parentSpan: Span): string {
  tracing.tracer.wrapEmitter(emitter);
  const child = parentSpan.startChildSpan({ name: 'run', kind: SpanKind.UNSPECIFIED });
  const other: Span = tracing.tracer.startChildSpan({ name: 'other', kind: SpanKind.CLIENT, childOf: child });
  other.truncate();
  child.truncate();
  return `${child.traceId}/${child.id}`;
}
