class Message:
    def __init__(self, data, headers):
        self.data, self.headers = data, headers


class Client:
    def __init__(self):
        self.callbacks = []

    async def subscribe(self, subject, queue="", cb=None):
        self.callbacks.append((subject, cb))

    async def publish(self, subject, payload=b"", reply="", headers=None):
        await self.deliver(subject, payload, headers)

    async def deliver(self, subject, data, headers):
        for wanted, callback in self.callbacks:
            if wanted == subject:
                try:
                    await callback(Message(data, headers))
                except KeyError as error:
                    print("callback failed", error)


async def connect(url):
    return Client()


NATS = Client
