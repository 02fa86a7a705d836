// SPDX-License-Identifier: Apache-2.0
import tracing from "@opencensus/nodejs";
import { ZipkinTraceExporter } from "@opencensus/exporter-zipkin";

const exporter = new ZipkinTraceExporter({ url: process.env.ZIPKIN });
tracing.registerExporter(exporter);
tracing.start();
