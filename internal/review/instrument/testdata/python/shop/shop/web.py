"""Orders over HTTP."""

from __future__ import annotations

import functools

import bottle
import oracledb
import requests
from bottle import (
    get,
    post,  # orders
)

ORDERS = "SELECT id, item FROM orders WHERE id = ?"

app = bottle.default_app()
db = oracledb.connect(dsn="orders")


def authenticated(callback):
    @functools.wraps(callback)
    def check(*args, **kwargs):
        return callback(*args, **kwargs)

    return check


@get("/orders/<order>")
@get("/v1/orders/<order>")
@authenticated
def get_order(order):
    rows = db.execute(ORDERS, [order]).fetchall()
    if not rows:
        bottle.abort(404)
    return {"item": rows[0][1]}


@post("/orders")
def create_order():
    db.execute("INSERT INTO orders VALUES (?, ?)", [bottle.request.json["id"], bottle.request.json["item"]])
    db.execute(
        f"ANALYZE {ORDERS}"
    )
    requests.post("https://billing.example/orders", json=bottle.request.json)
    bottle.response.status = 201


@app.route("/events")
def events():
    yield "a"
    yield "b"


def report():
    cursor = db.cursor()
    cursor.execute(
        """
        SELECT o.id, c.name
        FROM orders o JOIN customers c ON c.id = o.customer
        """
    )
    return cursor.fetchall()


app.route("/report", "GET", report)
