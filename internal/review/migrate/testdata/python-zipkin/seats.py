from py_zipkin.transport import BaseTransportHandler
from py_zipkin.zipkin import zipkin_span


class Kafka(BaseTransportHandler):
    def get_max_payload_bytes(self):
        return None

    def send(self, payload):
        print(payload)


@zipkin_span(service_name="tickets", span_name="reserve")
def reserve(count):
    if count > 1:
        raise ValueError("sold out")


def sweep(rate):
    with zipkin_span(service_name="tickets", transport_handler=Kafka(), sample_rate=rate, binary_annotations={"seats.rows": "3"}):
        pass
