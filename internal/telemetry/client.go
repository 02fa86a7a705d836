// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Transport returns a transport that measures requests sent through base; nil is http.DefaultTransport. When
// traces are exported, a request made while assay serves another request has a span, which its traceparent
// header names. Other requests have no span: a trace must not begin with an outgoing call. The query, headers
// and user information of a request are not recorded.
//
// A request ends when its response body is closed or read to its end.
func (t *Telemetry) Transport(base http.RoundTripper) http.RoundTripper {
	base = cmp.Or(base, http.DefaultTransport)
	return &transport{t, base}
}

type transport struct {
	t    *Telemetry
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := t.newSent(r)
	resp, err := t.base.RoundTrip(x.r)
	if err != nil {
		x.end(err)
		return resp, err
	}
	x.common = append(x.common, semconv.HTTPResponseStatusCode(resp.StatusCode), protocolVersion(resp.Proto))
	x.status = resp.StatusCode
	if resp.Body == nil || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		x.end(nil)
		return resp, nil
	}
	resp.Body = &body{resp.Body, x}
	return resp, nil
}

// CloseIdleConnections is called by http.Client.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// sent is a request whose response has not ended.
type sent struct {
	t      *Telemetry
	r      *http.Request
	began  time.Time
	common []attribute.KeyValue
	span   trace.Span // nil: none
	status int
	once   sync.Once
}

func (t *transport) newSent(r *http.Request) *sent {
	method, name := requestMethod(r.Method)
	x := &sent{t: t.t, r: r, began: time.Now(), common: append([]attribute.KeyValue{method}, server(r.URL)...)}
	ctx := r.Context()
	if t.t.tracer == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return x
	}
	where := url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: cleanPath(r.URL.Path)}
	ctx, x.span = t.t.tracer.Start(ctx, name,
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(x.common...), trace.WithAttributes(semconv.URLFull(where.String())))
	x.r = r.Clone(ctx) // a RoundTripper must not modify the request
	// Do not forward the caller's tracestate to the systems that assay calls.
	fields := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, fields)
	x.r.Header.Set("Traceparent", fields.Get("traceparent"))
	return x
}

// server returns the attributes of the server of a URL.
func server(u *url.URL) []attribute.KeyValue {
	attributes := []attribute.KeyValue{semconv.ServerAddress(u.Hostname())}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		port = map[string]int{"http": 80, "https": 443}[u.Scheme]
	}
	return append(attributes, semconv.ServerPort(port))
}

func (x *sent) end(err error) {
	x.once.Do(func() {
		attributes := x.common
		failure := errorType(x.status, err)
		if failure != "" {
			attributes = append(attributes, semconv.ErrorTypeKey.String(failure))
		}
		ctx := x.r.Context()
		x.t.http.clientDuration.Record(ctx, time.Since(x.began).Seconds(), metric.WithAttributeSet(attribute.NewSet(attributes...)))
		if x.span == nil {
			return
		}
		x.span.SetAttributes(attributes...)
		if failure != "" {
			x.span.SetStatus(codes.Error, "")
		}
		x.span.End()
	})
}

// errorType returns a low-cardinality name of an error, or "" for nil.
func errorType(status int, err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil && status >= http.StatusBadRequest:
		return strconv.Itoa(status)
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next // the innermost error is the most specific
	}
	return fmt.Sprintf("%T", err)
}

// body is the body of a response.
type body struct {
	io.ReadCloser
	x *sent
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch err {
	case nil:
	case io.EOF:
		b.x.end(nil)
	default:
		b.x.end(err)
	}
	return n, err
}

// Close ends the request. The unread rest of the body is discarded.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.x.end(nil)
	return err
}
