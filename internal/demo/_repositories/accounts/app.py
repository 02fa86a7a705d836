import logging

from flask import Flask, request
from opentelemetry import metrics, trace

app = Flask(__name__)
log = logging.getLogger(__name__)
tracer = trace.get_tracer("accounts")
meter = metrics.get_meter("accounts")
logins = meter.create_counter("accounts.logins", unit="{login}")


@app.post("/login")
def login():
    email = request.json["email"]
    with tracer.start_as_current_span("login") as span:
        span.set_attribute("user.contact", email)
        logins.add(1, {"account": email})
        log.info("login of %s with card %s", email, request.json.get("card_number"))
    return "", 204
