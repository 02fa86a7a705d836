// SPDX-License-Identifier: Apache-2.0
import { ConsoleRecorder, ExplicitContext, Tracer, sampler } from 'zipkin';

const ctxImpl = new ExplicitContext(); // passed on
const recorder = new ConsoleRecorder();
const localServiceName = 'jobs';

export const tracer: Tracer = new Tracer({ ctxImpl, recorder, sampler: new sampler.CountingSampler(0.1), localServiceName });
