// SPDX-License-Identifier: Apache-2.0
import { globalTracer, Span } from 'opentracing';

export class Service {
  private span?: Span;

  begin(parentSpan: Span): void {
    this.span = globalTracer().startSpan('begin', { childOf: parentSpan });
  }

  end(): void {
    this.span!.finish();
  }
}
