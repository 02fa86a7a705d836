// SPDX-License-Identifier: Apache-2.0
import { Annotation } from 'zipkin';
import { tracer } from './setup';

export function run(name: string, local: boolean): void {
  tracer.letId(tracer.createChildId(), () => {
    const title = `run ${name}`;
    tracer.recordServiceName('jobs');
    tracer.recordRpc(title);
    tracer.recordAnnotation(new Annotation.ConsumerStart());
    tracer.recordAnnotation(new Annotation.Message('begun'));
    tracer.recordAnnotation(new Annotation.BinaryAnnotation('error', 1));
    tracer.recordAnnotation(new Annotation.Rpc('ran'));
    tracer.recordAnnotation(new Annotation.ConsumerStop());
  });
  if (local) tracer.recordServiceName('jobs'); // once
  tracer.local('check', () => local);
  tracer.local('check again', () => local);
}
