// SPDX-License-Identifier: Apache-2.0
import express from "express";
import { globalTracer, followsFrom, FORMAT_TEXT_MAP, Tags } from "opentracing";

const trace = "a name of this file";

export function start(parentSpan, begin, rows) {
  const span = globalTracer().startSpan("start", {
    references: [followsFrom(parentSpan.context())],
    startTime: begin,
    tags: { rows, [Tags.PEER_SERVICE]: trace },
  });
  span.log({ rows }, begin);
  span.log({ event: "empty" });
  span.setTag(Tags.DB_USER, "app");
  span.finish(begin + 1);
  return express;
}

export const inject = (span, carrier) => globalTracer().inject(span, FORMAT_TEXT_MAP, carrier);

export const ids = (span) => [span.context().toTraceId(), span.context().toSpanId()];
