import bottle


@bottle.get("/")
def index():
    return "ok"
