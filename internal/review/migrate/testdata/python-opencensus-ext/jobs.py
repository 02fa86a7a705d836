from opencensus.common.transports.async_ import AsyncTransport
from opencensus.ext.jaeger.trace_exporter import JaegerExporter
from opencensus.ext.zipkin.trace_exporter import ZipkinExporter
from opencensus.trace import tracer as tracer_module
from opencensus.trace.samplers import AlwaysOnSampler

NAME = "jobs"


def tracers(local):
    if local:
        return tracer_module.Tracer(
            sampler=AlwaysOnSampler(),
            exporter=ZipkinExporter(service_name=NAME, host_name="zipkin", port=9411),  # in the cluster
        )
    return tracer_module.Tracer(sampler=AlwaysOnSampler(), exporter=JaegerExporter(service_name=NAME, transport=AsyncTransport))
