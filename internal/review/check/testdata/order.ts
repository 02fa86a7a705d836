import { trace, context, metrics, SpanStatusCode, ROOT_CONTEXT, SpanKind } from "@opentelemetry/api";
import { resourceFromAttributes } from "@opentelemetry/resources";
import pino from "pino";
const tracer = trace.getTracer("shop");
const meter = metrics.getMeter("shop");
const logger = pino();

export async function a(id: string, req: Request) {
  return tracer.startActiveSpan("order " + id, async (span) => { // want: span-name-dynamic
    try {
      span.setAttribute("user.email", req.user.email); // want: sensitive-attribute
      span.setAttributes({
        "order.id": id,
        "card": req.body.cardNumber, // want: sensitive-attribute
        "http.method": req.method, // want: semconv-deprecated
        "host.name": "x", // want: attribute-level
        "has_email": !!req.user.email,
      });
      return await work(id);
    } catch (err) { // want: span-error-unrecorded
      logger.error("failed");
      throw err;
    } finally {
      span.end();
    }
  });
}
export async function b(id: string) {
  return tracer.startActiveSpan("b", async (span) => { // want: span-not-ended
    const r = await work(id);
    if (!r) {
      return null;
    }
    span.end();
    return r;
  });
}
export async function c(id: string) {
  const span = tracer.startSpan("c"); // want: span-not-ended
  try {
    await work(id);
    span.end();
  } catch (e) {
    span.recordException(e as Error);
    span.setStatus({ code: SpanStatusCode.ERROR });
    throw e;
  }
}
export async function d(items: string[]) {
  for (const item of items) {
    const span = tracer.startSpan("item"); // want: span-noise
    sum(item);
    span.end();
  }
  return work(1).then(() => 1);
}
export function e(p: Promise<void>) {
  const span = tracer.startSpan("e");
  return p.finally(() => span.end());
}
export function f(ctx: any) {
  const span = tracer.startSpan("f", {}, ROOT_CONTEXT); // want: context-lost
  span.end();
}
export class G {
  private counter = meter.createCounter("orders"); // want: metric-unit
  private hist = meter.createHistogram("order.duration_ms", { unit: "ms" }); // want: metric-name-unit
  private bad = meter.createHistogram("order.wait", { unit: "seconds" }); // want: metric-unit
  private named = meter.createCounter("http.route", { unit: "{x}" }); // want: metric-name-attribute
  private span?: Span;
  m(userId: string, err: Error, req: any) {
    this.counter.add(1, { "user.id": userId, region: "eu" }); // want: metric-attribute-unbounded
    this.hist.record(1, { error: err.message }); // want: metric-attribute-unbounded
    this.hist.record(1, { route: req.route.path, method: req.method, status: 200 });
    this.hist.record(1, { path: req.path }); // want: metric-attribute-unbounded
    this.span = tracer.startSpan("m");
  }
}
export function h(req: any, user: any, password: string, config: any) {
  logger.info({ email: user.email }, "login"); // want: sensitive-log
  logger.info(`login ${user.email}`); // want: sensitive-log
  console.log("headers", req.headers); // want: sensitive-log
  console.log(process.env); // want: sensitive-log
  console.log("token=" + req.query.t); // want: sensitive-log
  console.log(JSON.stringify(req.body)); // want: sensitive-log
  logger.debug({ config }, "loaded"); // want: sensitive-log
  logger.info({ userId: user.id, hasPassword: Boolean(password), len: password.length }, "ok");
  logger.info("password reset for user %s", user.id);
  logger.info("listening on " + config.port);
  console.log(`took ${ms}ms`, req.method, req.url);
}
export function i(id: string) {
  const span = tracer.startSpan("i", { kind: SpanKind.CLIENT, attributes: { "user.full_name": id } });
  try {
    return work(id);
  } catch (err) {
    span.recordException(err);
    span.setStatus({ code: 2, message: err.message });
    throw err;
  } finally {
    span.end();
  }
}
export const res = resourceFromAttributes({ "service.name": "shop", "http.route": "/x" }); // want: attribute-level
