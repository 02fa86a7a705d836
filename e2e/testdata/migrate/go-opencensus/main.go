// SPDX-License-Identifier: Apache-2.0

// Command search answers a query.
package main

import (
	"context"
	"fmt"
	"log"

	"contrib.go.opencensus.io/exporter/ocagent"
	"go.opencensus.io/trace"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	exporter, err := ocagent.NewExporter(ocagent.WithInsecure(), ocagent.WithServiceName("search"), ocagent.WithAddress("127.0.0.1:55678"))
	if err != nil {
		return err
	}
	defer exporter.Stop()
	trace.RegisterExporter(exporter)
	trace.ApplyConfig(trace.Config{DefaultSampler: trace.AlwaysSample()})

	ctx, span := trace.StartSpan(context.Background(), "GET /search", trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	span.AddAttributes(
		trace.StringAttribute("http.method", "GET"), // as the router says
		trace.Int64Attribute("http.status_code", 200),
	)
	found := query(ctx, "tea")
	log.Println(found, "in trace", span.SpanContext().TraceID.String() != "")
	return nil
}

// query returns the number of matches.
func query(ctx context.Context, words ...string) int {
	ctx, span := trace.StartSpan(ctx, "query", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	span.AddAttributes(attributes(words)...)
	remote(ctx, span.SpanContext())
	annotate(span, len(words))
	span.SetStatus(trace.Status{Code: trace.StatusCodeUnavailable, Message: "one shard is down"})
	return len(words)
}

func annotate(span *trace.Span, n int) {
	span.Annotate([]trace.Attribute{trace.Int64Attribute("shards", 3)}, "scattered")
	span.Annotatef(nil, "gathered %d words", n)
	span.Annotate(nil, "done")
}

func attributes(words []string) (list []trace.Attribute) {
	for i, w := range words {
		list = append(list, trace.StringAttribute(fmt.Sprintf("word.%d", i), w))
	}
	return append(list, trace.BoolAttribute("cached", false), trace.Float64Attribute("boost", 1.5))
}

// remote is what another process does with a span context.
func remote(ctx context.Context, parent trace.SpanContext) {
	if span := trace.FromContext(ctx); span != nil {
		span.AddAttributes(trace.BoolAttribute("sampled", parent.IsSampled()))
	}
	_, span := trace.StartSpanWithRemoteParent(context.Background(), "shard", parent)
	span.SetName("shard 1")
	span.SetStatus(trace.Status{Code: trace.StatusCodeOK})
	span.End()
}
