"""Sets up the OpenTelemetry SDK."""

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, TraceIdRatioBased


class Config:
    """Takes the service name and the sampler of a configuration. Other settings come from OTEL_* variables."""

    def __init__(self, config=None, service_name=None, **_):
        self._sampler = (config or {}).get("sampler") or {}
        self._service_name = service_name or (config or {}).get("service_name")

    def _root(self):
        if self._sampler.get("type") == "const":
            return ParentBased(ALWAYS_ON if self._sampler.get("param") else ALWAYS_OFF)
        if self._sampler.get("type") == "probabilistic":
            return ParentBased(TraceIdRatioBased(self._sampler["param"]))
        return None

    def initialize_tracer(self):
        """Registers a tracer provider at the first call. Returns a tracer, whose method close sends the spans that are left."""
        provider = trace.get_tracer_provider()
        if not isinstance(provider, TracerProvider):
            attributes = {"service.name": self._service_name} if self._service_name else {}
            provider = TracerProvider(sampler=self._root(), resource=Resource.create(attributes))
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            trace.set_tracer_provider(provider)
        tracer = trace.get_tracer(__name__)
        tracer.close = provider.shutdown
        return tracer
