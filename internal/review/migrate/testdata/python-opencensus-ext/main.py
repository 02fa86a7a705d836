import contextlib
import os

from opencensus.ext.azure.trace_exporter import AzureExporter
from opencensus.trace.propagation.b3_format import B3FormatPropagator
from opencensus.trace.samplers import AlwaysOffSampler, AlwaysOnSampler, ProbabilitySampler
from opencensus.trace.tracer import Tracer


class Config:
    connection = os.environ["CONNECTION"]


def azure():
    return Tracer(exporter=AzureExporter(connection_string=Config.connection), sampler=ProbabilitySampler(0.25))


def off():
    return Tracer(sampler=AlwaysOffSampler(), propagator=B3FormatPropagator())


def default():
    tracer = Tracer()
    with tracer.span("a"), tracer.span():
        pass
    with contextlib.ExitStack() as stack:
        stack.enter_context(tracer.span("b")).add_annotation("entered")
    return Tracer(sampler=AlwaysOnSampler())
