"""Answers searches."""

import logging

from opencensus.ext.ocagent.trace_exporter import TraceExporter
from opencensus.trace import config_integration, execution_context
from opencensus.trace import samplers
from opencensus.trace.propagation.trace_context_http_header_format import TraceContextPropagator
from opencensus.trace.span import Span, SpanKind
from opencensus.trace.status import Status
from opencensus.trace.tracer import Tracer

import index

log = logging.getLogger(__name__)

config_integration.trace_integrations(["requests"])

exporter = TraceExporter(service_name="search", endpoint="localhost:55678")  # the agent
sampler = samplers.ProbabilitySampler(rate=1.0)
propagator = TraceContextPropagator()
tracer = Tracer(exporter=exporter, sampler=sampler, propagator=propagator)


def search(word, send=log.info):
    with tracer.span(name="GET /search") as span:
        span.span_kind = SpanKind.SERVER
        span.add_attribute("http.method", "GET")
        tracer.add_attribute_to_current_span("word", word)
        found = query(span, word)
        span.add_annotation("found", results=len(found), cached=False)
        headers = {"accept": "text/plain"}
        headers.update(propagator.to_headers(tracer.span_context))
        send("/log %s", headers)
        send("/ads %s", tracer.propagator.to_headers(tracer.span_context))
        span.name = "GET /search/{word}"
        log.info("trace %s span %s", tracer.span_context.trace_id, span.span_id)
        return found


def query(parent: Span, word):
    with parent.span(name="query") as child:
        child.span_kind = SpanKind.CLIENT
        child.add_annotation("asked")
        try:
            return index.find(word)
        except KeyError as err:
            child.set_status(Status.from_exception(err))
            return []


def rebuild():
    tracer.start_span(name="rebuild")
    try:
        # the current span is that of rebuild
        current = execution_context.get_current_span()
        if current is not None:
            current.add_attribute("full", True)
        index.build()
    finally:
        tracer.end_span()


@tracer.trace_decorator()
def clean():
    headers = propagator.to_headers(tracer.span_context)
    log.info("clean %s", len(headers))


def suggest(headers):
    span_context = propagator.from_headers(headers)
    own = tracer
    request_tracer = Tracer(span_context=span_context, exporter=exporter, sampler=sampler)
    with request_tracer.span(name="GET /suggest"):
        index.build()
    with own.span(name="GET /next"):
        return request_tracer.span_context.trace_id


if __name__ == "__main__":
    suggest({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
    search("tea")
    search("water")
    rebuild()
    clean()
