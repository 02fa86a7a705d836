import contextlib
import enum

from opentelemetry import write
from opentelemetry.context import current

SpanKind = enum.Enum("SpanKind", "INTERNAL SERVER CLIENT PRODUCER CONSUMER")
StatusCode = enum.Enum("StatusCode", "UNSET OK ERROR")


class Span:
    def __init__(self, attributes):
        self.attributes, self.status, self.exceptions = dict(attributes), StatusCode.UNSET, []

    def set_attributes(self, attributes):
        self.attributes.update(attributes)

    def set_status(self, status):
        self.status = status

    def record_exception(self, error):
        self.exceptions.append(type(error).__name__)


class Tracer:
    @contextlib.contextmanager
    def start_as_current_span(
        self, name, context=None, kind=SpanKind.INTERNAL, attributes=None, *, record_exception, set_status_on_exception
    ):
        span, parent = Span(attributes), context.get("span")
        token = current.set({"span": name})
        try:
            yield span
        finally:
            current.reset(token)
            write(
                attributes=span.attributes,
                exceptions=span.exceptions,
                kind=kind.name,
                parent=parent,
                span=name,
                status=span.status.name,
            )


def get_tracer(name):
    return Tracer()
