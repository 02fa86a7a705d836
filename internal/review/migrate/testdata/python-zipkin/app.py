"""Sells tickets."""

import urllib.request

from py_zipkin import Encoding, Kind
from py_zipkin.request_helpers import extract_zipkin_attrs_from_headers
from py_zipkin.transport import SimpleHTTPTransport
from py_zipkin.zipkin import ZipkinAttrs, create_http_headers_for_new_span, zipkin_client_span, zipkin_span

from seats import reserve, sweep

SERVICE = "tickets"

handler = SimpleHTTPTransport("localhost", 9411)  # the collector


def handle(headers):
    zipkin_attrs = ZipkinAttrs(
        trace_id=headers["X-B3-TraceId"],
        span_id=headers["X-B3-SpanId"],
        parent_span_id=headers.get("X-B3-ParentSpanId"),
        flags=headers.get("X-B3-Flags", "0"),
        is_sampled=headers.get("X-B3-Sampled") == "1",
    )
    with zipkin_span(
        service_name=SERVICE,
        span_name="POST /tickets",
        zipkin_attrs=zipkin_attrs,
        transport_handler=handler,
        port=8080,
        kind=Kind.SERVER,
        binary_annotations={"http.method": "POST"},
        encoding=Encoding.V2_JSON,
    ) as span:
        try:
            reserve(2)
        except ValueError as err:
            span.update_binary_annotations({"seats": "2", "error": str(err)})
        span.override_span_name("POST /tickets/{id}")
        return span.zipkin_attrs.trace_id


def relay(headers):
    with zipkin_span("tickets", "relay", extract_zipkin_attrs_from_headers(headers), handler):
        return create_http_headers_for_new_span()


def buy(send):
    with zipkin_span(service_name=SERVICE, span_name="buy", transport_handler=handler, sample_rate=100.0) as root:
        root.add_annotation("started")
        with zipkin_client_span(service_name=SERVICE, span_name="post") as span:
            headers = create_http_headers_for_new_span()
            headers.update(create_http_headers_for_new_span())
            span.add_sa_binary_annotation(port=8080, service_name="tickets", host="127.0.0.1")
            send(urllib.request.Request("http://localhost:8080", headers=create_http_headers_for_new_span()))
            handle(headers)
            return headers


if __name__ == "__main__":
    relay(buy(lambda r: r))
    sweep(50 + 50)
