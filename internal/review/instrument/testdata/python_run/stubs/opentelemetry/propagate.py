from opentelemetry.context import get_current


def extract(carrier, context=None):
    value = carrier.get("traceparent")
    return {"span": value.split("-")[2]} if value else dict(context or {})


def inject(carrier):
    carrier["traceparent"] = "00-0af7651916cd43dd8448eb211c80319c-%s-01" % get_current().get("span")
