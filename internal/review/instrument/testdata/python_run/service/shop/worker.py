import nats


class Worker:
    def __init__(self):
        self.seen = []

    async def on_order(self, message):
        self.seen.append(message.data)
        if message.data == b"bad":
            raise KeyError("item")


async def stream(message):
    yield message


async def main():
    worker = Worker()
    nc = await nats.connect("nats://127.0.0.1")
    await nc.subscribe("orders", cb=worker.on_order)
    await nc.subscribe("orders", cb=on_payment)
    await nc.subscribe("payments.>", "queue", on_payment)
    await nc.subscribe("streams", cb=stream)
    headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}
    await nc.deliver("orders", b"good", headers)
    await nc.deliver("orders", b"bad", None)
    await nc.deliver("payments.>", b"paid", headers)
    await send(nc, b"sent")
    print(worker.seen)


async def send(nc: nats.NATS, payload):
    await nc.publish("orders", payload, headers={"kind": "order"})


async def on_payment(message):
    print("payment", message.data)
