// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"
)

// Transport calls a handler, which receives requests like from a server.
type Transport struct {
	Handler http.Handler
	Max     int // bytes of the body of a response that are kept; 0: all
}

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &Response{Fields: http.Header{}, Max: t.Max}
	t.Handler.ServeHTTP(w, in)
	// The response is incomplete if the handler stopped because the caller disconnected.
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: http.StatusText(w.Status), StatusCode: w.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.Fields, Body: io.NopCloser(&w.Body), ContentLength: int64(w.Body.Len()), Request: r,
	}, nil
}

// Response is a response in memory.
type Response struct {
	Fields http.Header
	Status int // 0 before WriteHeader
	Body   bytes.Buffer
	Max    int // bytes of the body that are kept; 0: all
}

// Header implements http.ResponseWriter.
func (w *Response) Header() http.Header { return w.Fields }

// WriteHeader implements http.ResponseWriter.
func (w *Response) WriteHeader(status int) { w.Status = cmp.Or(w.Status, status) }

// Write implements http.ResponseWriter.
func (w *Response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	kept := p
	if w.Max > 0 {
		kept = p[:min(len(p), w.Max-w.Body.Len())]
	}
	w.Body.Write(kept)
	return len(p), nil
}

// SetReadDeadline lets handlers set deadlines, which have no effect.
func (w *Response) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline lets handlers set deadlines, which have no effect.
func (w *Response) SetWriteDeadline(time.Time) error { return nil }
