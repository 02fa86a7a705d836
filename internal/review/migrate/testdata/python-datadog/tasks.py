"""Sends mails in the background."""

import ddtrace.auto
from ddtrace import config, patch_all, tracer
from ddtrace.ext import SpanTypes

import queue
import sys

config.service = "mailer"
config.env = "test"
if sys.flags.dev_mode:
    patch_all(logging=True)


class Mailer:
    @tracer.wrap("mailer.send", service="mailer", resource="send", span_type=SpanTypes.WORKER)
    async def send(self, to, *bodies):
        for body in bodies:
            with tracer.trace("mailer.one", "mailer", resource="one", span_type=SpanTypes.HTTP) as span:
                span.set_tags({"mail.size": len(body), "out.host": "mx"})
                span.set_metric("mail.attempt", 1)
                try:
                    await self.deliver(to, body)
                except OSError:
                    span.set_traceback()
                    span.error = True

    @tracer.wrap(name="mailer.deliver", service=None)
    async def deliver(self, to, body):
        print(tracer.current_span().trace_id)

    @tracer.wrap()
    def close(self):
        span = tracer.start_span("mailer.close", span_type="cache")
        try:
            queue.Queue().get_nowait()
        except queue.Empty as err:
            span.set_exc_info(*sys.exc_info())
            span.resource = "closed"
        finally:
            span.finish()
