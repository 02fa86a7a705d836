import flask
import httpx

app = flask.Flask(__name__)


def logged(view):
    def call(*args, **kwargs):
        print("view", view.__name__)
        return view(*args, **kwargs)

    call.__name__ = view.__name__
    return call


@app.route("/orders/<order>", methods=["GET"])
@logged
def get_order(order):
    """Return an order."""
    response = httpx.get("https://billing.example:8443/bills?order=" + order, headers={"accept": "text/plain"})
    print("sent", sorted(name for name in response.request_headers if name != "traceparent"))
    return {"order": order}, 200 if response.status_code == 200 else 404


@app.post("/orders")
async def create_order():
    async with httpx.AsyncClient() as client:
        await client.request("post", "https://billing.example/bills")
    raise ValueError("no item")


@app.get("/abort")
def abort():
    flask.abort(410)


@app.get("/stream")
def stream():
    yield "a"


def main():
    print(app.call("GET", "/orders/<order>", "7"), app.call("GET", "/orders/<order>", "8"))
    print(app.call("POST", "/orders"), app.call("GET", "/abort"), app.call("GET", "/stream"))
    print(get_order.__name__, create_order.__name__, create_order.__doc__)
