import asyncio
import inspect
import types

request = types.SimpleNamespace()


class HTTPException(Exception):
    code = None


def abort(code):
    error = HTTPException()
    error.code = code
    raise error


class Flask:
    def __init__(self, name):
        self.views = {}

    def route(self, rule, methods=("GET",)):
        return lambda view: self.views.setdefault((methods[0], rule), view)

    def get(self, rule):
        return self.route(rule)

    def post(self, rule):
        return self.route(rule, ["POST"])

    def call(self, method, rule, *args):
        request.__dict__.update(method=method, scheme="https", url_rule=types.SimpleNamespace(rule=rule), headers={})
        try:
            result = self.views[method, rule](*args)
            if inspect.isawaitable(result):
                result = asyncio.run(result)
            return list(result) if inspect.isgenerator(result) else result
        except Exception as error:
            return type(error).__name__
