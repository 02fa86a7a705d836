"""Spans and metrics of handlers, consumers, jobs and calls that no instrumentation package covers.

Names and units are those of the semantic conventions of OpenTelemetry. Arguments, results and exceptions stay as they
are. A function that cannot be measured, such as a generator, is returned as it is.
"""

import contextlib
import functools
import inspect
import time

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.trace import SpanKind, StatusCode

_tracer = trace.get_tracer(__name__)


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


def _type_name(error):
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


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


def trace_job(function):
    """Run a scheduled job in a span."""
    name = getattr(function, "__name__", "job")
    return _decorate(function, lambda args: _boundary(name, SpanKind.INTERNAL, {}))
