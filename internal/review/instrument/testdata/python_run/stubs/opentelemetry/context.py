from contextvars import ContextVar

current = ContextVar("current", default={})


def get_current():
    return current.get()
