"""Sends mails."""

from ddtrace import Span, tracer

import smtplib


@tracer.wrap("mail.render")
def render(name):
    tracer.current_span().set_tag("mail.template", name)
    return name


def send(to):
    with tracer.trace("mail.send", resource="send welcome", span_type="http") as span:
        span.set_tag("mail.to.count", len(to))
        render("welcome")
        smtplib.SMTP("localhost").quit()


def receive(span):
    try:
        smtplib.SMTP("localhost").noop()
    except OSError:
        span.set_traceback()  # as seen


def tag(span: Span | None) -> None:
    if tracer.current_span() and span is not None:
        span.set_tag("mail.list", "weekly")
