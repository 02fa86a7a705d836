// SPDX-License-Identifier: Apache-2.0

// Command stock reserves an item over HTTP.
package main

import (
	"context"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/openzipkin/zipkin-go"
	"github.com/openzipkin/zipkin-go/model"
	"github.com/openzipkin/zipkin-go/propagation/b3"
	httpreporter "github.com/openzipkin/zipkin-go/reporter/http"
)

// stock answers and sends requests.
type stock struct {
	tracer *zipkin.Tracer
	last   model.SpanContext
}

func main() {
	reporter := httpreporter.NewReporter("http://127.0.0.1:9411/api/v2/spans")
	defer reporter.Close()
	endpoint, err := zipkin.NewEndpoint("stock", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	tracer, err := zipkin.NewTracer(reporter, zipkin.WithLocalEndpoint(endpoint), zipkin.WithSharedSpans(false))
	if err != nil {
		log.Fatal(err)
	}
	s := &stock{tracer: tracer}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	defer server.Close()
	s.reserve(context.Background(), server.URL)
}

// reserve reserves an item.
func (s *stock) reserve(ctx context.Context, url string) {
	span, ctx := s.tracer.StartSpanFromContext(ctx, "reserve", zipkin.Tags(map[string]string{"item": "tea"}))
	defer span.Finish()
	child, ctx := s.tracer.StartSpanFromContext(ctx, "post", zipkin.Kind(model.Client))
	defer child.Finish()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		zipkin.TagError.Set(child, err.Error())
		return
	}
	if err := b3.InjectHTTP(req)(child.Context()); err != nil {
		log.Println(err)
	}
	zipkin.TagHTTPMethod.Set(child, req.Method)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		zipkin.TagError.Set(child, err.Error())
		return
	}
	child.Tag("http.status_code", resp.Status)
	if err := resp.Body.Close(); err != nil {
		log.Println(err)
	}
	child.Annotate(time.Now(), "answered")
	if parent := zipkin.SpanFromContext(ctx); parent != nil {
		parent.SetName("post item")
	}
}

// serve answers a request.
func (s *stock) serve(w http.ResponseWriter, r *http.Request) {
	span := s.tracer.StartSpan("serve", zipkin.Kind(model.Server), zipkin.Parent(s.tracer.Extract(b3.ExtractHTTP(r))), zipkin.StartTime(time.Now()))
	defer span.Finish()
	s.last = span.Context()
	ctx := zipkin.NewContext(r.Context(), span)
	zipkin.SpanOrNoopFromContext(ctx).Tag("error", "sold out")
	next := s.tracer.StartSpan("next", zipkin.Parent(s.last))
	next.Finish()
	w.WriteHeader(http.StatusConflict)
}
