class Response:
    def __init__(self, url, headers):
        self.status_code, self.request_headers = 503 if url.endswith("=8") else 200, headers


def get(url, headers):
    return Response(url, headers)


class AsyncClient:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        pass

    async def request(self, method, url, headers=None):
        if headers and not headers["traceparent"].endswith("-POST-01"):
            raise RuntimeError("no parent")
        return Response(url, headers)
