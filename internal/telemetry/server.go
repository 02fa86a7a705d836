// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// unsampled are paths that are asked for every few seconds and have nothing to
// tell: they are measured, and have no spans.
var unsampled = map[string]bool{"/livez": true, "/readyz": true, "/metrics": true}

// Middleware measures the requests that next answers, and has them in spans when
// traces are exported. A span is called by the method and the pattern that
// http.Request.Pattern tells when next has returned. It continues the trace of a
// traceparent header. Query, headers and addresses of a request are not recorded.
func (t *Telemetry) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := t.newServed(r)
		defer x.end() // also when next ends the connection by a panic
		next.ServeHTTP(&response{ResponseWriter: w, status: &x.status}, x.r)
		x.returned = true
	})
}

// served is a request that is being answered.
type served struct {
	t        *Telemetry
	r        *http.Request
	began    time.Time
	method   string // as in the name of a span
	common   []attribute.KeyValue
	active   metric.MeasurementOption
	span     trace.Span // nil: none
	status   int        // 0: no answer yet
	returned bool
}

func (t *Telemetry) newServed(r *http.Request) *served {
	method, name := requestMethod(r.Method)
	scheme := semconv.URLScheme("http")
	if r.TLS != nil {
		scheme = semconv.URLScheme("https")
	}
	x := &served{
		t: t, r: r, began: time.Now(), method: name,
		common: []attribute.KeyValue{method, scheme, protocolVersion(r.Proto)},
		active: metric.WithAttributeSet(attribute.NewSet(method, scheme)),
	}
	t.http.serverActive.Add(r.Context(), 1, x.active)
	if t.tracer == nil || unsampled[r.URL.Path] {
		return x
	}
	var ctx context.Context
	ctx, x.span = t.tracer.Start(parent(r), name,
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(x.common...), trace.WithAttributes(semconv.URLPath(cleanPath(r.URL.Path))))
	x.r = r.WithContext(ctx)
	return x
}

// parent returns the context of a request with the span that its traceparent
// header names, when it has exactly one.
func parent(r *http.Request) context.Context {
	if len(r.Header.Values("Traceparent")) != 1 {
		return r.Context()
	}
	return propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
}

func (x *served) end() {
	attributes := x.common
	if x.status == 0 && x.returned {
		x.status = http.StatusOK // as net/http has it
	}
	route := routeOf(x.r)
	if route != "" {
		attributes = append(attributes, semconv.HTTPRoute(route))
	}
	if x.status != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(x.status))
	}
	failed := true
	switch {
	case !x.returned:
		attributes = append(attributes, semconv.ErrorTypeKey.String("aborted"))
	case x.status >= http.StatusInternalServerError:
		attributes = append(attributes, semconv.ErrorTypeKey.String(strconv.Itoa(x.status)))
	default:
		failed = false
	}
	ctx := x.r.Context()
	x.t.http.serverActive.Add(ctx, -1, x.active)
	x.t.http.serverDuration.Record(ctx, time.Since(x.began).Seconds(), metric.WithAttributeSet(attribute.NewSet(attributes...)))
	if x.span == nil {
		return
	}
	if route != "" {
		x.span.SetName(x.method + " " + route)
	}
	x.span.SetAttributes(attributes...)
	if failed {
		x.span.SetStatus(codes.Error, "")
	}
	x.span.End()
}

// routeOf returns the path of the pattern that a request was matched by, "" for none
// and for the one that takes what no other does.
func routeOf(r *http.Request) string {
	path := r.Pattern
	if _, after, ok := strings.Cut(path, " "); ok {
		path = after
	}
	if path == "/" && r.URL.Path != "/" {
		return ""
	}
	return path
}

// response notes the status of a response.
type response struct {
	http.ResponseWriter
	status *int
}

// WriteHeader notes the first status that is final.
func (w *response) WriteHeader(status int) {
	if *w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		*w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if *w.status == 0 {
		*w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
