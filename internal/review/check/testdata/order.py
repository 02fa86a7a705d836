import logging
import os
from opentelemetry import trace, metrics
from opentelemetry.trace import Status, StatusCode
from opentelemetry.sdk.resources import Resource

tracer = trace.get_tracer(__name__)
meter = metrics.get_meter(__name__)
logger = logging.getLogger(__name__)

orders = meter.create_counter("orders")  # want: metric-unit
wait = meter.create_histogram("order.wait", unit="seconds")  # want: metric-unit
size = meter.create_histogram("order.size_bytes", unit="By")  # want: metric-name-unit
named = meter.create_counter("http.route", unit="{x}")  # want: metric-name-attribute
ok = meter.create_counter("shop.orders", unit="{order}", description="x")
resource = Resource.create({"service.name": "shop", "http.route": "/x"})  # want: attribute-level


def a(order_id, user, request):
    with tracer.start_as_current_span(f"order {order_id}") as span:  # want: span-name-dynamic
        span.set_attribute("user.email", user.email)  # want: sensitive-attribute
        span.set_attribute("card", str(user.card_number))  # want: sensitive-attribute
        span.set_attribute("http.method", request.method)  # want: semconv-deprecated
        span.set_attribute("host.name", "x")  # want: attribute-level
        span.set_attribute("email.count", len(user.emails))
        span.set_attribute("has_password", user.password is not None)
        span.set_attributes({"order.id": order_id, "user.ssn": user.ssn})  # want: sensitive-attribute
        try:
            work()
        except Exception as e:  # want: span-error-unrecorded
            logger.error("failed: %s", e)
            return None
        try:
            work()
        except ValueError:
            return None
        try:
            work()
        except Exception as e:
            span.record_exception(e)
            span.set_status(Status(StatusCode.ERROR))
            return None


def b():
    span = tracer.start_span("b")  # want: span-not-ended
    if work():
        return 1
    span.end()


def c():
    span = tracer.start_span("c")
    try:
        work()
    finally:
        span.end()


def d():
    span = tracer.start_span("d")
    with trace.use_span(span, end_on_exit=True):
        work()


def e(items):
    for item in items:
        with tracer.start_as_current_span("item"):  # want: span-noise
            total(item)


@tracer.start_as_current_span("f")
def f():
    return work()


def g(user_id, err, request):
    orders.add(1, {"user.id": user_id})  # want: metric-attribute-unbounded
    orders.add(1, {"error": str(err), "kind": "x"})  # want: metric-attribute-unbounded
    orders.add(1, attributes={"path": request.path})  # want: metric-attribute-unbounded
    orders.add(1, {"method": request.method, "region": "eu"})


def h(request, user, password, config, token):
    logger.info("login %s", user.email)  # want: sensitive-log
    logger.info(f"login {user.email}")  # want: sensitive-log
    logger.info("login {}".format(user.email))  # want: sensitive-log
    logger.info("x %s" % password)  # want: sensitive-log
    logger.debug("headers: %s", request.headers)  # want: sensitive-log
    logger.debug("env: %s", dict(os.environ))  # want: sensitive-log
    logger.debug("config: %r", config)  # want: sensitive-log
    logger.info("login", extra={"password": password})  # want: sensitive-log
    logger.info("token=%s", token)  # want: sensitive-log
    logger.info("request: %s", request)  # want: sensitive-log
    logger.info("user %s with %d emails", user.id, len(user.emails))
    logger.info("password changed for %s", user.id)
    logger.info("token type %s", token.type)
    for token in tokenize(text):
        logger.debug("token %s", token)


class Cls:
    def __init__(self):
        self.span = tracer.start_span("cls")

    def close(self):
        self.span.end()

    def m(self, name):
        with tracer.start_as_current_span("cls." + self.__class__.__name__):
            return work()


def i(x):
    span = tracer.start_span("i")
    span.set_attribute("x", x)
    try:
        return work()
    except Exception as exc:  # want: span-error-unrecorded
        raise RuntimeError("x") from exc
    finally:
        span.end()


def j():
    retry_span = None

    def before():
        nonlocal retry_span
        retry_span = tracer.start_span("retry")

    def after():
        retry_span.end()

    return before, after
