// SPDX-License-Identifier: Apache-2.0
//
// The functions that instrumented code calls. Each part begins with its name and the names of the parts that it needs. Types
// stand in comments, which become types in TypeScript and nothing in JavaScript.

// part header
/**
 * Spans and metrics of OpenTelemetry for what automatic instrumentation does not cover. Names and units are those of the
 * semantic conventions. Arguments, results and errors stay as they are, apart from headers that carry the trace context.
 */
import * as otel from '@opentelemetry/api';

const scope = 'SERVICE';

// part rename
/** Gives a function the name, length and properties of another one, which libraries may look at. */
function rename(replacement/*: any*/, original/*: any*/) {
  Object.defineProperty(replacement, 'name', { value: original.name, configurable: true, writable: true });
  Object.defineProperty(replacement, 'length', { value: original.length, configurable: true, writable: true });
  return Object.assign(replacement, original);
}

// part durationRecorder
/** Returns a function that records durations, in seconds since a start in milliseconds. */
function durationRecorder(name/*: string*/, boundaries/*: number[]*/) {
  let histogram/*: otel.Histogram | undefined*/;
  return (start/*: number*/, attributes/*: otel.Attributes*/) => {
    // The SDK may be set up after this file is loaded.
    histogram ??= otel.metrics.getMeter(scope).createHistogram(name, { unit: 's', advice: { explicitBucketBoundaries: boundaries } });
    histogram.record((performance.now() - start) / 1000, attributes);
  };
}

// part seconds
/** Bucket boundaries of the conventions for requests and messages. */
const seconds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

// part methods
/** The methods of HTTP that attributes name. */
const methods = ['CONNECT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'TRACE'];

// part failure
/** Records an error in a span, and returns the attributes of the failure. */
function failure(span/*: otel.Span*/, error/*: any*/) {
  const type = typeof error?.code === 'string' ? error.code : error instanceof Error ? error.constructor.name : '_OTHER';
  span.recordException(error);
  span.setStatus({ code: otel.SpanStatusCode.ERROR });
  span.setAttribute('error.type', type);
  return { 'error.type': type };
}

// part observe: failure
/** Calls a function in the context of a span, which ends when the function returns or its promise settles. */
function observe(span/*: otel.Span*/, parent/*: otel.Context*/, call/*: () => any*/, record/*: (attributes: otel.Attributes) => void*/ = () => {}) {
  const end = (attributes/*: otel.Attributes*/) => {
    span.end();
    record(attributes);
  };
  const fail = (error/*: unknown*/) => {
    end(failure(span, error));
    throw error;
  };
  let result;
  try {
    result = otel.context.with(otel.trace.setSpan(parent, span), call);
  } catch (error) {
    return fail(error);
  }
  if (result instanceof Promise) {
    return result.then((value) => {
      end({});
      return value;
    }, fail);
  }
  end({});
  return result;
}

// part traceProcess: rename durationRecorder seconds observe
const recordProcess = durationRecorder('messaging.process.duration', seconds);

/** Where the messages of a system have their headers. */
const headersOf/*: Record<string, (...args: any[]) => any>*/ = {
  aws_sqs: (message) => message.MessageAttributes,
  gcp_pubsub: (message) => message.attributes,
  kafka: (payload) => payload.message?.headers,
  mqtt: (_topic, _payload, packet) => packet?.properties?.userProperties,
  rabbitmq: (message) => message.properties?.headers,
  servicebus: (message) => message.applicationProperties,
};

const headerGetter = {
  keys: (headers/*: any*/) => Object.keys(headers),
  get: (headers/*: any*/, key/*: string*/) => {
    const value = headers[key]?.StringValue ?? headers[key];
    if (value instanceof Uint8Array) {
      return new TextDecoder().decode(value);
    }
    return typeof value === 'string' ? value : undefined;
  },
};

/** Returns a handler of messages that processes each of them within a span, whose parent is in the headers of the message. */
EXPORT function traceProcess/*<F>*/(system/*: string*/, destination/*: unknown*/, handler/*: F*/)/*: F*/ {
  if (typeof handler !== 'function') {
    return handler;
  }
  return rename(function (/*this: any, */...args/*: any[]*/) {
    if (args[0] === null) {
      return Reflect.apply(handler/* as any*/, this, args); // RabbitMQ has cancelled the consumer
    }
    const start = performance.now();
    const attributes/*: otel.Attributes*/ = { 'messaging.system': system, 'messaging.operation.name': 'process' };
    const name = destination ?? args[0]?.topic ?? args[0]?.batch?.topic;
    if (typeof name === 'string') {
      attributes['messaging.destination.name'] = name;
    }
    let parent = otel.context.active();
    try {
      parent = otel.propagation.extract(parent, headersOf[system]?.(...args) ?? {}, headerGetter);
    } catch {
      // The sender chose the headers: the handler processes the message without them.
    }
    const span = otel.trace.getTracer(scope).startSpan(
      typeof name === 'string' ? `process ${name}` : 'process',
      { kind: otel.SpanKind.CONSUMER, attributes: { ...attributes, 'messaging.operation.type': 'process' } },
      parent,
    );
    return observe(span, parent, () => Reflect.apply(handler/* as any*/, this, args), (more) => recordProcess(start, { ...attributes, ...more }));
  }, handler);
}

// part traceProducer: rename durationRecorder seconds observe
const recordSend = durationRecorder('messaging.client.operation.duration', seconds);

/** Makes the producer of a queue start a span for each call that sends messages, and returns the producer. */
EXPORT function traceProducer/*<T>*/(system/*: string*/, destination/*: unknown*/, producer/*: T*/)/*: T*/ {
  const client = producer/* as any*/;
  for (const method of ['add', 'addBulk', 'send']) {
    const send = client[method];
    if (typeof send !== 'function') {
      continue;
    }
    client[method] = rename(function (/*this: any, */...args/*: any[]*/) {
      const start = performance.now();
      const attributes/*: otel.Attributes*/ = { 'messaging.system': system, 'messaging.operation.name': 'send' };
      const name = destination ?? args[0]?.topic;
      if (typeof name === 'string') {
        attributes['messaging.destination.name'] = name;
      }
      const parent = otel.context.active();
      const span = otel.trace.getTracer(scope).startSpan(
        typeof name === 'string' ? `send ${name}` : 'send',
        { kind: otel.SpanKind.PRODUCER, attributes: { ...attributes, 'messaging.operation.type': 'send' } },
        parent,
      );
      if (Array.isArray(args[0]?.messages)) {
        const headers = {};
        otel.propagation.inject(otel.trace.setSpan(parent, span), headers);
        args[0] = { ...args[0], messages: args[0].messages.map((message/*: any*/) => ({ ...message, headers: { ...message.headers, ...headers } })) };
      }
      return observe(span, parent, () => send.apply(this, args), (more) => recordSend(start, { ...attributes, ...more }));
    }, send);
  }
  return producer;
}

// part traceJob: rename observe
/** Returns a function that runs a scheduled job within a span. */
EXPORT function traceJob/*<F>*/(name/*: string*/, job/*: F*/)/*: F*/ {
  if (typeof job !== 'function') {
    return job;
  }
  return rename(function (/*this: any, */...args/*: any[]*/) {
    const parent = otel.context.active();
    const span = otel.trace.getTracer(scope).startSpan(name, {}, parent);
    return observe(span, parent, () => Reflect.apply(job/* as any*/, this, args));
  }, job);
}

// part TracedProcess: traceProcess
/** Decorates a method that processes messages. Other decorators have to precede it. */
EXPORT function TracedProcess(system/*: string*/, destination/*: unknown*/) {
  return (_target/*: object*/, _key/*: string | symbol*/, descriptor/*: PropertyDescriptor*/) => {
    descriptor.value = traceProcess(system, destination, descriptor.value);
  };
}

// part TracedJob: traceJob
/** Decorates a method that runs a scheduled job. Other decorators have to precede it. */
EXPORT function TracedJob(name/*: string*/) {
  return (_target/*: object*/, _key/*: string | symbol*/, descriptor/*: PropertyDescriptor*/) => {
    descriptor.value = traceJob(name, descriptor.value);
  };
}

// part traceDatabase: rename durationRecorder observe failure
const recordCall = durationRecorder('db.client.operation.duration', [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]);

/** The methods of clients that run statements, prepare them, and open connections. */
const databases/*: Record<string, { run: string[]; prepare?: string; connect?: string }>*/ = {
  mysql: { run: ['query', 'execute'], connect: 'getConnection' },
  postgresql: { run: ['query'], connect: 'connect' },
  sqlite: { run: ['run', 'get', 'all', 'exec'], prepare: 'prepare' },
};

const traced = new WeakSet();
const databaseCall = otel.createContextKey('call of a database');

/** Makes the client of a database start a span for each statement of a trace, and returns the client. */
EXPORT function traceDatabase/*<T>*/(system/*: string*/, client/*: T*/)/*: T*/ {
  return (client instanceof Promise ? client.then((c) => traceClient(system, c)) : traceClient(system, client))/* as T*/;
}

function traceClient(system/*: string*/, client/*: any*/, statement/*?: unknown*/)/*: any*/ {
  if (typeof client !== 'object' || client === null || traced.has(client)) {
    return client;
  }
  traced.add(client);
  const replace = (name/*: string | undefined*/, replacement/*: (method: any, self: any, args: any[]) => any*/) => {
    const method = name && client[name];
    if (typeof method === 'function') {
      client[name/* as string*/] = rename(function (/*this: any, */...args/*: any[]*/) {
        return replacement(method, this, args);
      }, method);
    }
  };
  const { run, prepare, connect } = databases[system]/* as any*/;
  for (const name of run) {
    replace(name, (method, self, args) => {
      if (otel.context.active().getValue(databaseCall)) {
        return method.apply(self, args); // of a call that has a span
      }
      return traceCall(system, String(statement ?? args[0]?.text ?? args[0]?.sql ?? args[0]), method, self, args);
    });
  }
  replace(prepare, (method, self, args) => traceClient(system, method.apply(self, args), args[0]));
  replace(connect, (method, self, args) => {
    const callback = args.at(-1);
    if (typeof callback === 'function') {
      // A connection that becomes free later calls back in another context.
      args[args.length - 1] = otel.context.bind(otel.context.active(), (error/*: unknown*/, connection/*: unknown*/, ...more/*: unknown[]*/) =>
        callback(error, traceClient(system, connection), ...more),
      );
      return method.apply(self, args);
    }
    return traceDatabase(system, method.apply(self, args));
  });
  return client;
}

function traceCall(system/*: string*/, statement/*: string*/, method/*: any*/, self/*: any*/, args/*: any[]*/) {
  const start = performance.now();
  const parent = otel.context.active();
  const text = statement.slice(0, 10_000);
  const operation = /^\s*([a-z]+)/i.exec(text)?.[1]?.toUpperCase();
  const table = /\b(?:FROM|INTO|UPDATE|TABLE)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?["`[]?([a-z_][\w.]*)/i.exec(text)?.[1];
  const attributes/*: otel.Attributes*/ = { 'db.system.name': system };
  if (operation) {
    attributes['db.query.summary'] = table ? `${operation} ${table}` : operation;
  }
  const name = String(attributes['db.query.summary'] ?? system);
  const span = otel.trace.getSpan(parent)
    ? otel.trace.getTracer(scope).startSpan(name, { kind: otel.SpanKind.CLIENT, attributes }, parent)
    : otel.trace.wrapSpanContext(otel.INVALID_SPAN_CONTEXT); // a statement outside of a trace, such as at the start
  const context = parent.setValue(databaseCall, true);
  const record = (more/*: otel.Attributes*/) => recordCall(start, { ...attributes, ...more });
  const callback = args.at(-1);
  if (typeof callback !== 'function') {
    return observe(span, context, () => method.apply(self, args), record);
  }
  args[args.length - 1] = function (/*this: any, */...results/*: any[]*/) {
    const more = results[0] ? failure(span, results[0]) : {};
    span.end();
    record(more);
    return otel.context.with(parent, () => callback.apply(this, results));
  };
  return otel.context.with(otel.trace.setSpan(context, span), () => method.apply(self, args));
}

// part traceRequest: durationRecorder seconds methods failure
const recordRequest = durationRecorder('http.server.request.duration', seconds);
const requests = new WeakMap/*<object, { route: () => unknown }>*/();

/** Handles a request within a span. The route is known when the request is handled. */
function traceRequest(request/*: any*/, response/*: any*/, route/*: () => unknown*/, handle/*: () => any*/) {
  const known = requests.get(request);
  if (known) {
    known.route = route; // an application within another handler
    return handle();
  }
  const current = { route };
  requests.set(request, current);
  const start = performance.now();
  const named = methods.includes(request.method);
  const attributes/*: otel.Attributes*/ = {
    'http.request.method': named ? request.method : '_OTHER',
    'url.scheme': request.socket?.encrypted ? 'https' : 'http',
  };
  const name = named ? request.method : 'HTTP';
  const parent = otel.propagation.extract(otel.context.active(), request.headers);
  const span = otel.trace.getTracer(scope).startSpan(name, { kind: otel.SpanKind.SERVER, attributes: { ...attributes, 'url.path': request.url.split('?', 1)[0] } }, parent);
  response.once('close', () => {
    const path = current.route();
    if (typeof path === 'string') {
      attributes['http.route'] = path;
      span.updateName(`${name} ${path}`);
    }
    attributes['http.response.status_code'] = response.statusCode;
    if (response.statusCode >= 500) {
      attributes['error.type'] = String(response.statusCode);
      span.setStatus({ code: otel.SpanStatusCode.ERROR });
    }
    span.setAttributes(attributes);
    span.end();
    recordRequest(start, attributes);
  });
  try {
    return otel.context.with(otel.trace.setSpan(parent, span), handle);
  } catch (error) {
    failure(span, error);
    throw error;
  }
}

// part traceHandler: traceRequest rename
/** Returns a handler of HTTP requests that handles each of them within a span. */
EXPORT function traceHandler/*<F>*/(handler/*: F*/)/*: F*/ {
  if (typeof handler !== 'function') {
    return handler;
  }
  return rename(function (/*this: any, */...args/*: any[]*/) {
    return traceRequest(args[0], args[1], () => undefined, () => Reflect.apply(handler/* as any*/, this, args));
  }, handler);
}

// part traceExpress: traceRequest
/** Makes an application of Express handle each request within a span, and returns the application. */
EXPORT function traceExpress/*<T>*/(app/*: T*/)/*: T*/ {
  const express = app/* as any*/;
  const handle = express.handle;
  express.handle = function (/*this: any, */...args/*: any[]*/) {
    const [request, response] = args;
    let route/*: any*/;
    let path/*: string | undefined*/;
    Object.defineProperty(request, 'route', {
      configurable: true,
      enumerable: true,
      get: () => route,
      set: (value) => {
        route = value;
        path = typeof value?.path === 'string' ? request.baseUrl + value.path : undefined; // an error resets the base
      },
    });
    return traceRequest(request, response, () => path, () => handle.apply(this, args));
  };
  return app;
}

// part traceKoa: traceRequest
/** Makes an application of Koa handle each request within a span, and returns the application. */
EXPORT function traceKoa/*<T>*/(app/*: T*/)/*: T*/ {
  const koa = app/* as any*/;
  const handle = koa.handleRequest;
  koa.handleRequest = function (/*this: any, */...args/*: any[]*/) {
    const [ctx] = args;
    return traceRequest(ctx.req, ctx.res, () => ctx._matchedRoute, () => handle.apply(this, args));
  };
  return app;
}

// part traceFastify: traceRequest
/** Makes an application of Fastify handle each request within a span, and returns the application. */
EXPORT function traceFastify/*<T>*/(app/*: T*/)/*: T*/ {
  (app/* as any*/).addHook('onRequest', (request/*: any*/, reply/*: any*/, done/*: () => void*/) => {
    traceRequest(request.raw, reply.raw, () => request.routeOptions?.url, done);
  });
  return app;
}

// part traceFetch: durationRecorder seconds methods failure
const recordFetch = durationRecorder('http.client.request.duration', seconds);

/** Calls fetch within a span, whose context goes with the request. */
EXPORT async function traceFetch(...args/*: Parameters<typeof fetch>*/)/*: Promise<Response>*/ {
  let [input, init] = args;
  let request, url, headers;
  try {
    if (init && ![Object.prototype, null].includes(Object.getPrototypeOf(init))) {
      input = new Request(input, init); // a copy of the options lacks what they inherit
      init = undefined;
    }
    request = input instanceof Request ? input : undefined;
    url = new URL(request ? request.url : String(input));
    headers = new Headers(init?.headers ?? request?.headers);
  } catch {
    return fetch(...args); // which rejects them
  }
  const start = performance.now();
  const method = (init?.method ?? request?.method ?? 'GET').toUpperCase();
  const attributes/*: otel.Attributes*/ = {
    'http.request.method': methods.includes(method) ? method : '_OTHER',
    'server.address': url.hostname,
    'server.port': Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
  };
  const name = attributes['http.request.method'] === '_OTHER' ? 'HTTP' : method;
  const span = otel.trace.getTracer(scope).startSpan(name, { kind: otel.SpanKind.CLIENT, attributes: { ...attributes, 'url.full': url.origin + url.pathname } });
  const context = otel.trace.setSpan(otel.context.active(), span);
  otel.propagation.inject(context, headers, { set: (carrier, key, value) => carrier.set(key, value) });
  try {
    const response = await otel.context.with(context, () => fetch(input, { ...init, headers }));
    attributes['http.response.status_code'] = response.status;
    if (response.status >= 400) {
      attributes['error.type'] = String(response.status);
      span.setStatus({ code: otel.SpanStatusCode.ERROR });
    }
    span.setAttributes(attributes);
    return response;
  } catch (error) {
    Object.assign(attributes, failure(span, error));
    throw error;
  } finally {
    span.end();
    recordFetch(start, attributes);
  }
}
