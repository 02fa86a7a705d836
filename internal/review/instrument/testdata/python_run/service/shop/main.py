import asyncio
import http.client
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import shop.tasks
import shop.views
import shop.worker
from shop.store import Store


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        store = Store(self.server.server_port)
        if self.path == "/broken":
            raise LookupError("broken")
        if self.path == "/stock":
            self.answer(200, store.stock())
        elif self.path == "/order":
            self.answer(200, store.order("pen"))
        elif self.path == "/missing":
            self.answer(200, store.missing())
        else:
            self.send_error(404)

    def do_POST(self):
        self.send_error(503)

    def do_HEAD(self):
        self.do_GET()

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


class Server(HTTPServer):
    def handle_error(self, request, client_address):
        print("the handler failed")


def get(port, path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        print(path, response.status, len(response.read()))
    except http.client.HTTPException as error:
        print(path, type(error).__name__)
    finally:
        connection.close()


def main():
    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    parent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    for path in ("/stock", "/order?id=1", "/order", "/missing", "/broken"):
        get(server.server_port, path, parent)
    print(Store(server.server_port).itself())
    server.shutdown()
    thread.join()
    server.server_close()
    shop.views.main()
    asyncio.run(shop.worker.main())
    shop.tasks.main()


if __name__ == "__main__":
    main()
