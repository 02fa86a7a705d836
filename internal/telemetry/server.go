// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
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

	"assay/internal/requestid"
)

// unsampled are paths that are requested every few seconds. They have metrics but no spans.
var unsampled = map[string]bool{"/livez": true, "/readyz": true, "/metrics": true}

// Middleware measures the requests that next serves, and creates spans for them when traces are exported. The
// span name is the method and http.Request.Pattern after next has returned. It continues the trace of a
// traceparent header. The query, headers and addresses of a request are not recorded.
//
// Every request has a trace id and a request id, which are added to log records with the request's context.
// The request id is the value of the X-Request-Id header, or the trace id without one. Middleware sets that
// header on the request for next, and on the response.
func (t *Telemetry) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := t.newServed(r)
		defer x.end() // also if next panics to close the connection
		w.Header().Set(requestid.Header, requestid.FromContext(x.r.Context()))
		next.ServeHTTP(&response{ResponseWriter: w, x: x}, x.r)
		x.returned = true
	})
}

// served is a request that is being served.
type served struct {
	t        *Telemetry
	r        *http.Request
	began    time.Time
	method   string // as in span names
	common   []attribute.KeyValue
	active   metric.MeasurementOption
	span     trace.Span // nil: none
	status   int        // 0: no response yet
	bytes    int64      // of the response body
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
	ctx := parent(r)
	if t.tracer == nil || unsampled[r.URL.Path] {
		ctx = trace.ContextWithSpanContext(r.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceIDOf(ctx)}))
	} else {
		ctx, x.span = t.tracer.Start(ctx, name,
			trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(x.common...), trace.WithAttributes(semconv.URLPath(cleanPath(r.URL.Path))))
	}
	given := r.Header.Values(requestid.Header)
	id := requestid.Of(given)
	if id == "" {
		id = trace.SpanContextFromContext(ctx).TraceID().String()
		if len(given) > 0 { // an invalid id is neither logged nor forwarded
			r.Header.Set(requestid.Header, id)
		}
	}
	x.r = r.WithContext(requestid.NewContext(ctx, id))
	return x
}

// traceIDOf returns the trace id of the span in ctx, or a random one without a span.
func traceIDOf(ctx context.Context) trace.TraceID {
	id := trace.SpanContextFromContext(ctx).TraceID()
	for !id.IsValid() {
		rand.Read(id[:]) // never fails
	}
	return id
}

// parent returns the context of a request with the span of its traceparent header, if it has exactly one.
func parent(r *http.Request) context.Context {
	if len(r.Header.Values("Traceparent")) != 1 {
		return r.Context()
	}
	return propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
}

func (x *served) end() {
	attributes := x.common
	if x.status == 0 && x.returned {
		x.status = http.StatusOK // as in net/http
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
	ctx, took := x.r.Context(), time.Since(x.began)
	x.t.http.serverActive.Add(ctx, -1, x.active)
	x.t.http.serverDuration.Record(ctx, took.Seconds(), metric.WithAttributeSet(attribute.NewSet(attributes...)))
	if x.t.accessLog {
		x.t.logger.LogAttrs(ctx, slog.LevelInfo, "request",
			slog.String("method", x.r.Method), slog.String("path", cleanPath(x.r.URL.Path)), slog.String("route", route),
			slog.Int("status", x.status), slog.Int64("bytes", x.bytes), slog.Duration("duration", took))
	}
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

// routeOf returns the path of the pattern that matched a request, or "" if none or only the catch-all pattern
// matched.
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

// response records the status and the length of a response.
type response struct {
	http.ResponseWriter
	x *served
}

// WriteHeader records the first final status.
func (w *response) WriteHeader(status int) {
	if w.x.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.x.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	w.x.status = cmp.Or(w.x.status, http.StatusOK)
	n, err := w.ResponseWriter.Write(b)
	w.x.bytes += int64(n)
	return n, err
}

// Unwrap is called by http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
