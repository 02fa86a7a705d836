"""Spans and metrics of handlers, consumers, jobs and calls that no instrumentation package covers.

Names and units are those of the semantic conventions of OpenTelemetry. Arguments, results and exceptions stay as they
are. A function that cannot be measured, such as a generator, is returned as it is.
"""

import contextlib
import functools
import inspect
import time
import urllib.parse
import urllib.request

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.trace import SpanKind, StatusCode

_tracer = trace.get_tracer(__name__)


def _histogram(name, description, boundaries):
    create = metrics.get_meter(__name__).create_histogram
    try:
        return create(name, unit="s", description=description, explicit_bucket_boundaries_advisory=boundaries)
    except TypeError:  # an API before 1.30
        return create(name, unit="s", description=description)


def _type_name(error):
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


@contextlib.contextmanager
def _boundary(name, kind, attributes, duration=None, carrier=None):
    """Run a block in a span and record its duration. The block may add attributes to the dict that it gets."""
    parent = context.get_current()
    if carrier is not None:
        parent = propagate.extract(carrier, parent)
    attributes = {key: value for key, value in attributes.items() if value is not None}
    start = time.perf_counter()
    with _tracer.start_as_current_span(
        name, parent, kind, attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield attributes
        except Exception as error:
            # An HTTP exception below 500 is an answer of the server, not its failure.
            if kind is not SpanKind.SERVER or attributes.get("http.response.status_code", 500) >= 500:
                attributes.setdefault("error.type", _type_name(error))
                span.record_exception(error)
            raise
        finally:
            span.set_attributes(attributes)
            if "error.type" in attributes:
                span.set_status(StatusCode.ERROR)
            if duration is not None:
                duration.record(time.perf_counter() - start, attributes)


def _decorate(function, boundary, finish=lambda attributes, args, result: None):
    """Return a function that runs in boundary(args). finish adds attributes from the result or the exception."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def measured(*args, **kwargs):
            with boundary(args) as attributes:
                try:
                    result = await function(*args, **kwargs)
                except Exception as error:
                    finish(attributes, args, error)
                    raise
                finish(attributes, args, result)
                return result

    elif inspect.isroutine(function) and not (
        inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    ):

        @functools.wraps(function)
        def measured(*args, **kwargs):
            with boundary(args) as attributes:
                try:
                    result = function(*args, **kwargs)
                except Exception as error:
                    finish(attributes, args, error)
                    raise
                finish(attributes, args, result)
                return result

    else:
        return function
    return measured


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


_METHODS = {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"}


def _add_status(attributes, result, least_error, default=None):
    """Add the status code of a response or an exception."""
    values = (getattr(result, name, None) for name in ("status_code", "status", "code"))
    code = next((int(value) for value in values if isinstance(value, int)), default)
    if code is not None and 100 <= code < 600:
        attributes["http.response.status_code"] = code
        if code >= least_error:
            attributes["error.type"] = str(code)


_server_duration = _histogram("http.server.request.duration", "Duration of HTTP server requests.", _SECONDS)


def _server(handler, request, status=lambda args, result: None):
    """Measure a handler. request(args) returns method, scheme, route and headers, status(args, result) a status code."""

    def boundary(args):
        try:
            method, scheme, route, headers = request(args)
        except Exception:  # called without a request, such as by a test
            return contextlib.nullcontext({})
        if method not in _METHODS:
            method = "_OTHER"
        name = method.replace("_OTHER", "HTTP")
        attributes = {"http.request.method": method, "url.scheme": scheme, "http.route": route}
        return _boundary(f"{name} {route}" if route else name, SpanKind.SERVER, attributes, _server_duration, headers)

    def finish(attributes, args, result):
        failed = isinstance(result, Exception)
        _add_status(attributes, result, 500, None if failed else status(args, result))

    return _decorate(handler, boundary, finish)


def trace_http_server(handler):
    """Measure a do_ method of a BaseHTTPRequestHandler."""

    def request(args):
        self = args[0]
        self._otel_status = None
        if "send_response_only" not in vars(self):
            send = self.send_response_only

            def send_response_only(code, *args, **kwargs):
                self._otel_status = int(code)
                send(code, *args, **kwargs)

            self.send_response_only = send_response_only
        return self.command, "http", None, self.headers

    return _server(handler, request, lambda args, result: getattr(args[0], "_otel_status", None))


def _view_status(args, result):
    """Return the status code of what a view of Flask or Quart returns."""
    code = result[1] if isinstance(result, tuple) and len(result) > 1 else 200
    return code if isinstance(code, int) else 200


def trace_flask(view):
    """Measure a view of Flask."""
    from flask import request

    return _server(
        view, lambda args: (request.method, request.scheme, request.url_rule.rule, request.headers), _view_status
    )


def trace_quart(view):
    """Measure a view of Quart."""
    from quart import request

    return _server(
        view, lambda args: (request.method, request.scheme, request.url_rule.rule, request.headers), _view_status
    )


def trace_bottle(callback):
    """Measure a callback of Bottle."""
    from bottle import request, response

    return _server(
        callback,
        lambda args: (request.method, request.urlparts.scheme, request.route.rule, request.headers),
        lambda args, result: response.status_code,
    )


def trace_aiohttp(handler):
    """Measure a handler of aiohttp.web, whose last argument is the request."""

    def request(args):
        resource = args[-1].match_info.route.resource
        return args[-1].method, args[-1].scheme, resource and resource.canonical, args[-1].headers

    return _server(handler, request)


def trace_sanic(handler):
    """Measure a handler of Sanic."""

    def request(args):
        found = next(arg for arg in args if hasattr(arg, "uri_template"))
        return found.method, found.scheme, found.uri_template, found.headers

    return _server(handler, request)


_client_duration = _histogram("http.client.request.duration", "Duration of HTTP client requests.", _SECONDS)


def _client(method, url, base=""):
    """Return the boundary of a request to a URL."""
    try:
        target = urllib.parse.urlsplit(urllib.parse.urljoin(str(base), str(url)))
        address, port = target.hostname, target.port or {"http": 80, "https": 443}.get(target.scheme)
    except ValueError:  # the call will say so
        address = port = None
    if method not in _METHODS:
        method = "_OTHER"
    attributes = {"http.request.method": method, "server.address": address, "server.port": port}
    return _boundary(method.replace("_OTHER", "HTTP"), SpanKind.CLIENT, attributes, _client_duration)


def trace_http(call, method=None):
    """Measure a call of requests or httpx. Without a method here, it is the first argument of the call."""

    def prepare(args, kwargs):
        names = dict(zip(("url",) if method else ("method", "url"), args), **kwargs)
        base = getattr(getattr(call, "__self__", None), "base_url", "")
        return _client(method or str(names.get("method")).upper(), names.get("url", ""), base)

    def inject(args, kwargs):
        headers = kwargs.get("headers") or {}
        if hasattr(headers, "keys") and len(args) < 5:  # not a list of pairs, nor given by position
            kwargs["headers"] = dict(headers)
            propagate.inject(kwargs["headers"])

    if inspect.iscoroutinefunction(call):

        async def send(*args, **kwargs):
            with prepare(args, kwargs) as attributes:
                inject(args, kwargs)
                response = await call(*args, **kwargs)
                _add_status(attributes, response, 400)
                return response

    else:

        def send(*args, **kwargs):
            with prepare(args, kwargs) as attributes:
                inject(args, kwargs)
                response = call(*args, **kwargs)
                _add_status(attributes, response, 400)
                return response

    return send


def trace_urlopen(urlopen):
    """Measure a call of urllib.request.urlopen."""

    def send(url, data=None, *args, **kwargs):
        request = urllib.request.Request(url) if isinstance(url, str) else url
        if getattr(request, "type", None) not in ("http", "https"):
            return urlopen(url, data, *args, **kwargs)
        posts = data is not None or request.data is not None
        method = getattr(request, "method", None) or ("POST" if posts else "GET")
        with _client(method, request.full_url) as attributes:
            headers = {}
            propagate.inject(headers)
            for name, value in headers.items():
                request.add_unredirected_header(name, value)
            try:
                response = urlopen(request, data, *args, **kwargs)
            except Exception as error:
                _add_status(attributes, error, 400)
                raise
            _add_status(attributes, response, 400)
            return response

    return send


_query_duration = _histogram(
    "db.client.operation.duration",
    "Duration of database client operations.",
    (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10),
)


def trace_query(call, system, operation=None, collection=None):
    """Measure a call of a database client. The operation and the collection are those of its statement."""
    name = f"{operation} {collection}" if operation and collection else operation or system
    attributes = {"db.system.name": system, "db.operation.name": operation, "db.collection.name": collection}
    return _decorate(call, lambda args: _boundary(name, SpanKind.CLIENT, attributes, _query_duration))


_process_duration = _histogram("messaging.process.duration", "Duration of processing operation.", _SECONDS)


def _consumer(function, system, destination, headers=lambda args: None):
    """Measure the processing of a message. headers(args) returns the headers with the context of the sender."""
    name = f"process {destination}" if destination else "process"
    attributes = {
        "messaging.system": system,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": destination,
    }

    def boundary(args):
        try:
            carrier = headers(args)
        except Exception:  # the message has no headers
            carrier = None
        return _boundary(name, SpanKind.CONSUMER, attributes, _process_duration, carrier)

    return _decorate(function, boundary)


def trace_nats(callback, destination=None):
    """Measure a callback of a subscription of NATS."""
    return _consumer(callback, "nats", destination, lambda args: args[-1].headers)


_send_duration = _histogram(
    "messaging.client.operation.duration",
    "Duration of messaging operation initiated by a producer or consumer client.",
    _SECONDS,
)


def trace_nats_publish(publish, destination=None):
    """Measure a call that publishes a message of NATS, and send the context with it."""
    attributes = {
        "messaging.system": "nats",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": destination,
    }

    async def send(*args, **kwargs):
        name = f"publish {destination}" if destination else "publish"
        with _boundary(name, SpanKind.PRODUCER, attributes, _send_duration):
            if len(args) < 4:  # no headers by position
                kwargs["headers"] = dict(kwargs.get("headers") or {})
                propagate.inject(kwargs["headers"])
            return await publish(*args, **kwargs)

    return send


def trace_mqtt(callback, destination=None):
    """Measure a callback of Paho MQTT. Messages of MQTT 5 have user properties."""
    return _consumer(callback, "mqtt", destination, lambda args: dict(args[-1].properties.UserProperty))


def trace_pubsub(callback, destination=None):
    """Measure a callback of a subscription of Google Cloud Pub/Sub."""

    def headers(args):
        # The prefix is that of the tracing of the client library.
        return {key.replace("googclient_", "", 1): value for key, value in args[-1].attributes.items()}

    return _consumer(callback, "gcp_pubsub", destination, headers)


def trace_pika(callback, destination=None):
    """Measure a callback of a consumer of Pika."""
    return _consumer(callback, "rabbitmq", destination, lambda args: args[-2].headers)


def trace_task(system, destination=None):
    """Measure a task of a queue."""
    return lambda function: _consumer(function, system, destination)


def trace_job(function):
    """Run a scheduled job in a span."""
    name = getattr(function, "__name__", "job")
    return _decorate(function, lambda args: _boundary(name, SpanKind.INTERNAL, {}))
