import socket
import sqlite3
import urllib.error
import urllib.request


class Store:
    def __init__(self, port):
        self.port = port
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE TABLE orders (item TEXT UNIQUE)")

    def order(self, item):
        try:
            with self.db as db:
                db.execute("INSERT INTO orders VALUES (?)", (item,))
                db.execute("INSERT INTO orders VALUES (?)", (item,))
        except sqlite3.IntegrityError as error:
            return str(error)

    def stock(self):
        cursor = self.db.cursor()
        return str(cursor.execute("SELECT count(*) FROM orders WHERE item = 'secret'").fetchall())

    def missing(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            try:
                urllib.request.urlopen("data:text/plain,x").read()
                return urllib.request.urlopen("http://127.0.0.1:%d/stock?token=secret" % unused.getsockname()[1]).read()
            except urllib.error.URLError as error:
                return type(error).__name__

    def itself(self):
        request = urllib.request.Request("http://127.0.0.1:%d/?token=secret" % self.port, method="POST")
        try:
            urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
