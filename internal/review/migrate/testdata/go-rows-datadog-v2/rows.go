// SPDX-License-Identifier: Apache-2.0

// Package rows uses every symbol of the Datadog tracer that the tables know.
package rows

import (
	"context"
	"time"

	"github.com/DataDog/dd-trace-go/v2/ddtrace/ext"
	"github.com/DataDog/dd-trace-go/v2/ddtrace/tracer"
)

// Start starts tracing.
func Start() error {
	if err := tracer.Start(tracer.WithService("rows"), tracer.WithGlobalTag("team", "shop"), tracer.WithSamplerRate(0.1), tracer.WithAgentAddr("127.0.0.1:8126")); err != nil {
		return err
	}
	tracer.Flush()
	return nil
}

// Stop stops tracing.
func Stop() { tracer.Stop() }

type job struct {
	span   *tracer.Span
	parent *tracer.SpanContext
}

func (j *job) run(ctx context.Context, err error, begin time.Time) {
	j.span = tracer.StartSpan("job", tracer.ChildOf(j.parent), tracer.StartTime(begin), tracer.Measured(), tracer.SpanType("worker"))
	child := j.span.StartChild("step", tracer.Tag(ext.SpanKind, ext.SpanKindConsumer), tracer.Tag(ext.MessagingSystem, "kafka"))
	child.SetOperationName("step one")
	child.SetTag(ext.ErrorType, "none")
	child.Finish(tracer.FinishTime(time.Now()), tracer.NoDebugStack())
	j.parent = child.Context()
	println(j.parent.TraceID(), j.parent.SpanID(), j.span.Context().TraceID())
	ctx = tracer.ContextWithSpan(ctx, j.span)
	if span, ok := tracer.SpanFromContext(ctx); ok {
		span.SetTag(ext.TargetHost, "db")
	}
	values := map[string]string{}
	if e := tracer.Inject(j.parent, tracer.TextMapCarrier(values)); e != nil {
		return
	}
	if remote, e := tracer.Extract(tracer.TextMapCarrier(values)); e == nil {
		j.parent = remote
	}
	j.span.Finish(tracer.WithError(err))
}
