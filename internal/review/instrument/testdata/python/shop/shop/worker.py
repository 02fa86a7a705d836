import asyncio

import nats
import paho.mqtt.client as mqtt


class Worker:
    def __init__(self, client: mqtt.Client, subject="orders.created"):
        self.client = client
        client.on_message = self.on_message
        client.message_callback_add("sensors/+/state", self.on_message)

    def on_message(self, client, userdata, message):
        print(message.topic)


async def on_order(message):
    print(message.subject)


async def stream(message):
    yield message


async def main():
    nc = await nats.connect()
    await nc.subscribe("orders.created", "billing", on_order)
    await nc.subscribe("orders.*", cb=on_order)
    await nc.subscribe("orders.stream", cb=stream)
    await nc.subscribe("orders.lambda", cb=lambda message: on_order(message))


asyncio.run(main())
