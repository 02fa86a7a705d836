// SPDX-License-Identifier: Apache-2.0
import * as tracing from '@opencensus/nodejs-base';
import { JaegerTraceExporter } from '@opencensus/exporter-jaeger';
import { B3Format } from '@opencensus/propagation-b3';

const options = { serviceName: 'jobs', host: 'jaeger' };

export const tracer = tracing.registerExporter(new JaegerTraceExporter(options)).start({
  samplingRate: Number(process.env.RATE), // as configured
  propagation: new B3Format(),
}).tracer;
