// SPDX-License-Identifier: Apache-2.0

// Package rows uses every symbol of OpenTracing that the tables know.
package rows

import (
	"context"
	"fmt"
	"net/http"
	"time"

	opentracing "github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/ext"
	"github.com/opentracing/opentracing-go/log"
)

// codes is a name that the migrated code cannot use for a package.
var codes = 2

var background = opentracing.StartSpan("background")

type worker struct {
	tracer opentracing.Tracer
	parent opentracing.SpanContext
	spans  map[string]opentracing.Span // by name
}

func newWorker() *worker {
	trace := "another name"
	return &worker{tracer: opentracing.NoopTracer{}, spans: map[string]opentracing.Span{trace: background}}
}

func (w *worker) start(ctx context.Context, begin time.Time) opentracing.Span {
	span, _ := opentracing.StartSpanFromContextWithTracer(ctx, w.tracer, "work", opentracing.StartTime(begin))
	span.SetOperationName("working").SetTag("round", codes)
	w.parent = span.Context()
	return w.tracer.StartSpan("child", opentracing.ChildOf(w.parent), ext.SpanKindProducer)
}

func (w *worker) next() opentracing.Span {
	var span opentracing.Span = w.tracer.StartSpan("next", opentracing.FollowsFrom(w.parent), ext.SpanKindConsumer)
	other := span.Tracer().StartSpan("other", ext.SpanKindRPCServer)
	defer other.Finish()
	third := opentracing.StartSpan("third", ext.SpanKindRPCClient, opentracing.Tag{Key: string(ext.PeerService), Value: "mail"})
	third.FinishWithOptions(opentracing.FinishOptions{FinishTime: time.Now()})
	return span
}

func tags(span opentracing.Span, err error, failed bool, any interface{}) {
	ext.Component.Set(span, "rows")
	ext.PeerPort.Set(span, 5432)
	ext.DBInstance.Set(span, "orders")
	ext.MessageBusDestination.Set(span, "orders")
	ext.Error.Set(span, failed)
	span.SetOperationName("tags")
	span.SetTag("any", any)
	span.SetTag("duration", time.Second)
	span.SetTag("list", []string{"a"})
	span.SetTag("size", uint32(3)).SetTag("ratio", float32(0.5)).SetTag("error", err)
	span.SetTag("error", "broken")
	if err != nil {
		ext.LogError(span, err)
	}
	span.LogFields(log.Error(err))
	span.LogFields(log.Event("retry"), log.Message("once more"), log.Uint64("left", 2), log.Object("value", any), log.Bool("last", true))
	span.LogKV("attempt", 1, "reason", fmt.Sprint(any))
	span.LogEvent("done")
}

func propagate(span opentracing.Span, request *http.Request, values map[string]string) error {
	tracer := opentracing.GlobalTracer()
	_ = tracer.Inject(span.Context(), opentracing.TextMap, opentracing.TextMapCarrier(values))
	err := tracer.Inject(span.Context(), opentracing.HTTPHeaders, opentracing.HTTPHeadersCarrier(request.Header))
	if err != nil {
		return err
	}
	parent, _ := tracer.Extract(opentracing.TextMap, opentracing.TextMapCarrier(values))
	if found := opentracing.SpanFromContext(opentracing.ContextWithSpan(request.Context(), span)); found == nil {
		return nil
	}
	server := tracer.StartSpan("serve", ext.RPCServerOption(parent))
	fmt.Println(server.BaggageItem("tenant"))
	server.Finish()
	sc, failure := tracer.Extract(opentracing.HTTPHeaders, opentracing.HTTPHeadersCarrier(request.Header))
	fmt.Println(sc != nil)
	return failure
}

func carriers(span opentracing.Span, header http.Header) (opentracing.TextMapCarrier, error) {
	values := make(opentracing.TextMapCarrier)
	if err := opentracing.GlobalTracer().Inject(span.Context(), opentracing.TextMap, values); err != nil {
		return nil, err
	}
	headers := opentracing.HTTPHeadersCarrier(header)
	headers.Set("tenant", "a")
	values.Set("tenant", "a")
	return values, values.ForeachKey(func(key, value string) error {
		headers.Set(key, value)
		return nil
	})
}
