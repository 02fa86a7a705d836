class Actor:
    def __init__(self, function):
        self.run = function


def actor(function=None, queue_name="default"):
    return Actor(function) if function else Actor
