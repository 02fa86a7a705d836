import sqlite3
import requests
import httpx
from flask import Blueprint, Flask
from opentelemetry import trace
from .store import orders as load

tracer = trace.get_tracer(__name__)
app = Flask(__name__)
views = Blueprint("views", __name__)


@views.get("/orders")
def orders():
    requests.get("https://billing.example")
    with sqlite3.connect("a.db") as connection:
        return connection.execute("DELETE FROM orders").rowcount


@views.get("/items")
def items():
    with tracer.start_as_current_span("items"):
        return httpx.get("https://items.example")


@views.route("/prices", methods=["GET", "POST"])
@tracer.start_as_current_span("prices")
def prices():
    return httpx.request("GET", "https://prices.example").json()


def health():
    return "ok"


app.add_url_rule("/health", view_func=health)
app.add_url_rule("/load", "load", load)
