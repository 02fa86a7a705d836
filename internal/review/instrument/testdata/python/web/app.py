import sqlite3
from urllib.request import urlopen

from aiohttp import web
from flask import Flask

app = Flask(__name__)
db = sqlite3.connect("a.db")


@app.route("/")
def index():
    db.execute("SELECT 1")
    return urlopen("https://example.com").read()


async def status(request):
    return web.Response()


routes = [web.get("/status", status)]
