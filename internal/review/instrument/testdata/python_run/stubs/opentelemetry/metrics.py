from opentelemetry import write


class Histogram:
    def __init__(self, name, unit, boundaries):
        self.name, self.unit, self.boundaries = name, unit, boundaries

    def record(self, amount, attributes):
        write(
            attributes=dict(attributes),
            boundaries=list(self.boundaries),
            metric=self.name,
            seconds=0 <= amount < 3600,
            unit=self.unit,
        )


class Meter:
    def create_histogram(self, name, unit, description, explicit_bucket_boundaries_advisory):
        return Histogram(name, unit, explicit_bucket_boundaries_advisory)


def get_meter(name):
    return Meter()
