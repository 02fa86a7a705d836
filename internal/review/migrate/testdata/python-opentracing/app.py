"""Answers orders."""

import logging

import opentracing
from jaeger_client import Config
from opentracing.ext import tags
from opentracing.propagation import Format

from store import save

log = logging.getLogger(__name__)


def init_tracer(service):
    config = Config(
        config={"sampler": {"type": "const", "param": 1}, "logging": True},
        service_name=service,
        validate=True,
    )
    tracer = config.initialize_tracer()
    opentracing.set_global_tracer(tracer)
    return tracer


tracer = init_tracer("orders")


def handle(request):
    parent_context = tracer.extract(Format.HTTP_HEADERS, request.headers)
    with tracer.start_active_span(
        "POST /orders",
        child_of=parent_context,
        tags={tags.SPAN_KIND: tags.SPAN_KIND_RPC_SERVER, tags.HTTP_URL: request.url},
    ) as scope:
        scope.span.set_tag("order.items", len(request.items))  # as ordered
        scope.span.log_kv({"event": "validated", "checks": 2})
        try:
            save(scope.span, request)
        except IOError as err:
            scope.span.set_tag(tags.ERROR, True)
            scope.span.log_kv({"event": "error", "error.object": err})
            raise


def notify(parent_span, http):
    span = tracer.start_span("notify", child_of=parent_span)
    span.set_tag(tags.SPAN_KIND, tags.SPAN_KIND_RPC_CLIENT)
    headers = {}
    tracer.inject(span, Format.HTTP_HEADERS, headers)
    span.set_tag(tags.HTTP_STATUS_CODE, http.post("/mail", headers=headers))
    span.set_operation_name("notify by mail")
    span.finish()


def ping():
    with opentracing.global_tracer().start_active_span("ping"):
        log.info("ping")


def charge(url, http):
    span_tags = {tags.COMPONENT: "billing", "span.kind": "client"}
    with tracer.start_active_span("charge", tags=span_tags) as scope:
        scope.span.set_tag(tags.HTTP_URL, url)
        return http.post(url) if tracer.active_span else None


def note(text):
    span = tracer.active_span
    if not span:
        span = tracer.start_span("note")
    span.log_kv({"event": text})


def answer(http):
    with tracer.start_active_span("answer") as scope:
        span = scope.span
        span.set_tag(tags.SPAN_KIND, tags.SPAN_KIND_RPC_SERVER)
        http.get("/")


def audit(http):
    scope = tracer.start_active_span("audit")
    try:
        http.get("/audit")
    finally:
        scope.close()
