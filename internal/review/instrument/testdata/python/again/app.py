import bottle
import schedule
from otel_boundaries import trace_job


@trace_job
def job():
    print("a")


schedule.every(10).minutes.do(job)


@schedule.repeat(schedule.every().day)
def clean():
    print("b")


@bottle.get("/")
def index():
    return "ok"
