// SPDX-License-Identifier: Apache-2.0

// Package rows uses every symbol of OpenCensus that the tables know.
package rows

import (
	"context"
	"fmt"

	"contrib.go.opencensus.io/exporter/ocagent"
	"go.opencensus.io/trace"
)

var exporter *ocagent.Exporter

// Setup configures tracing with the sampler that OpenCensus has without a configuration.
func Setup() (err error) {
	exporter, err = ocagent.NewExporter(ocagent.WithServiceName("rows"))
	if err == nil {
		trace.RegisterExporter(exporter)
	}
	return err
}

// Close sends what is left.
func Close() error {
	exporter.Flush()
	return exporter.Stop()
}

func work(ctx context.Context, options []trace.StartOption) (trace.TraceID, trace.SpanID) {
	options = append(options, trace.WithSpanKind(trace.SpanKindUnspecified))
	ctx, span := trace.StartSpan(ctx, "work", options...)
	defer span.End()
	if span.IsRecordingEvents() {
		extra := []trace.Attribute{trace.BoolAttribute("extra", true)}
		span.Annotate(extra, "recorded")
	}
	ctx = trace.NewContext(ctx, span)
	if again := trace.FromContext(ctx); again == nil {
		return trace.TraceID{}, trace.SpanID{}
	}
	var sc trace.SpanContext = span.SpanContext()
	println(sc.TraceID.String(), sc.SpanID.String())
	fmt.Println(sc.TraceID, sc.SpanID)
	return sc.TraceID, sc.SpanID
}
