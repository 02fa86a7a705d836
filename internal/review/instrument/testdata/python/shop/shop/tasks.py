import dramatiq
from apscheduler.schedulers.background import BackgroundScheduler
from opentelemetry import trace

from . import web

tracer = trace.get_tracer(__name__)
scheduler = BackgroundScheduler()


@dramatiq.actor(queue_name="mail", max_retries=3)
def send_mail(to):
    print(to)


@dramatiq.actor
# Letters take longer.
def send_letter(to):
    with tracer.start_as_current_span("send letter"):
        web.db.execute("SELECT 1")


class Jobs:
    @staticmethod
    @scheduler.scheduled_job("interval", minutes=5)
    def clean():
        web.report()


def remind():
    web.report()


scheduler.add_job(remind, "cron", hour=3)
scheduler.add_job(web.report, "cron", hour=4)
