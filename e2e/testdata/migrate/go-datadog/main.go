// SPDX-License-Identifier: Apache-2.0

// Command cart adds an item to a cart over HTTP.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"net/http/httptest"

	"gopkg.in/DataDog/dd-trace-go.v1/ddtrace"
	"gopkg.in/DataDog/dd-trace-go.v1/ddtrace/ext"
	"gopkg.in/DataDog/dd-trace-go.v1/ddtrace/tracer"
)

func main() {
	tracer.Start(
		tracer.WithService("cart"),
		tracer.WithEnv("test"),
		tracer.WithServiceVersion("1.2.0"),
		tracer.WithLogStartup(false),
	)
	defer tracer.Stop()
	server := httptest.NewServer(http.HandlerFunc(add))
	defer server.Close()

	span, ctx := tracer.StartSpanFromContext(context.Background(), "checkout", tracer.Tag("cart.items", 2))
	if err := post(ctx, server.URL); err != nil {
		log.Println(err)
	}
	span.Finish()
}

// post adds an item.
func post(ctx context.Context, url string) (err error) {
	span, ctx := tracer.StartSpanFromContext(ctx, "http.request", tracer.SpanType(ext.SpanTypeHTTP), tracer.ResourceName("POST /cart"), tracer.Tag(ext.SpanKind, ext.SpanKindClient))
	defer func() { span.Finish(tracer.WithError(err)) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	if err := tracer.Inject(span.Context(), tracer.HTTPHeadersCarrier(req.Header)); err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	span.SetTag(ext.HTTPCode, resp.StatusCode)
	if err := resp.Body.Close(); err != nil {
		return err
	}
	return errors.New("cart is full")
}

// add answers the request.
func add(w http.ResponseWriter, r *http.Request) {
	parent, err := tracer.Extract(tracer.HTTPHeadersCarrier(r.Header))
	if err != nil {
		log.Println(err)
	}
	span := tracer.StartSpan("web.request", tracer.ChildOf(parent), tracer.SpanType(ext.SpanTypeWeb))
	defer span.Finish()
	span.SetTag(ext.ResourceName, "POST /cart")
	ctx := tracer.ContextWithSpan(r.Context(), span)
	save(ctx, "c-1")
	w.WriteHeader(http.StatusConflict)
}

func save(ctx context.Context, id string) {
	if parent, ok := tracer.SpanFromContext(ctx); ok {
		mark(parent, "cart.id", id)
	}
	span, _ := tracer.StartSpanFromContext(ctx, "db.query", tracer.SpanType(ext.SpanTypeSQL))
	span.SetTag(ext.DBStatement, "UPDATE carts SET items = ?")
	span.SetTag(ext.Error, errors.New("conflict"))
	span.Finish()
}

func mark(span ddtrace.Span, key string, value any) { span.SetTag(key, value) }
