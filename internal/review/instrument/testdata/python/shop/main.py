#!/usr/bin/env python3
from shop import web

if __name__ == "__main__":
    web.app.run(port=8080)
