// SPDX-License-Identifier: Apache-2.0

// Command shop places an order and looks it up over HTTP.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/ext"
	otlog "github.com/opentracing/opentracing-go/log"
	"github.com/uber/jaeger-client-go"
	"github.com/uber/jaeger-client-go/config"

	"example.com/shop/store"
)

func main() {
	cfg := config.Configuration{
		ServiceName: "shop",
		Sampler:     &config.SamplerConfig{Type: jaeger.SamplerTypeConst, Param: 1},
		Reporter:    &config.ReporterConfig{LogSpans: true, CollectorEndpoint: "http://127.0.0.1:14268/api/traces"},
	}
	if endpoint := collector(); endpoint != "" {
		log.Println("sending to", endpoint)
	}
	tracer, closer, err := cfg.NewTracer(config.Logger(jaeger.StdLogger))
	if err != nil {
		log.Fatal(err)
	}
	defer closer.Close()
	opentracing.SetGlobalTracer(tracer)

	server := httptest.NewServer(http.HandlerFunc(serve))
	defer server.Close()
	if err := order(context.Background(), server.URL, 3); err != nil {
		log.Println(err)
	}
}

// order places an order of n items.
func order(ctx context.Context, url string, n int) (err error) {
	span, ctx := opentracing.StartSpanFromContext(ctx, "order", opentracing.Tag{Key: "order.items", Value: n})
	defer span.Finish()
	span.SetTag("customer", "c-17").SetTag("priority", true)
	span.LogFields(otlog.String("event", "validated"), otlog.Int("checks", 2))

	store.Save(ctx, "o-1")
	if err := look(ctx, url); err != nil {
		return err
	}
	err = errors.New("out of stock")
	ext.LogError(span, err)
	return err
}

// look gets the order over HTTP.
func look(ctx context.Context, url string) error {
	span, ctx := opentracing.StartSpanFromContext(ctx, "GET /orders")
	defer span.Finish()
	ext.SpanKindRPCClient.Set(span)
	ext.HTTPMethod.Set(span, http.MethodGet)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/orders", nil)
	if err != nil {
		return err
	}
	if err := opentracing.GlobalTracer().Inject(span.Context(), opentracing.HTTPHeaders, opentracing.HTTPHeadersCarrier(req.Header)); err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		ext.Error.Set(span, true)
		return err
	}
	ext.HTTPStatusCode.Set(span, uint16(resp.StatusCode))
	return resp.Body.Close()
}

// serve answers a lookup.
func serve(w http.ResponseWriter, r *http.Request) {
	tracer := opentracing.GlobalTracer()
	parent, err := tracer.Extract(opentracing.HTTPHeaders, opentracing.HTTPHeadersCarrier(r.Header))
	if err != nil && err != opentracing.ErrSpanContextNotFound {
		log.Println(err)
	}
	span := tracer.StartSpan("orders", ext.RPCServerOption(parent), opentracing.Tags{"http.url": r.URL.String(), "component": "net/http"})
	defer span.Finish()
	ctx := opentracing.ContextWithSpan(r.Context(), span)
	fmt.Fprintln(w, store.Load(ctx, "o-1"))
}
