// SPDX-License-Identifier: Apache-2.0
const initJaegerTracer = require("jaeger-client").initTracer;
const { initTracerFromEnv } = require("jaeger-client");
const { FORMAT_HTTP_HEADERS, Tags } = require("opentracing");

function initTracer(serviceName) {
  const config = { serviceName, sampler: { type: "const", param: 1 } };
  const options = { logger: console };
  return serviceName ? initJaegerTracer(config, options) : initTracerFromEnv({}, options);
}

const middleware = (tracer) => (req, res, next) => {
  const parent = tracer.extract(FORMAT_HTTP_HEADERS, req.headers);
  const tags = { [Tags.HTTP_METHOD]: req.method, "http.url": req.url };
  const span = tracer.startSpan(req.method, { childOf: parent, tags });
  span.setTag(Tags.SPAN_KIND, Tags.SPAN_KIND_RPC_SERVER);
  req.span = tracer.startSpan("handle", parent ? { childOf: span } : {});
  res.on("finish", () => span.finish());
  next();
};

module.exports = { initTracer, middleware };
