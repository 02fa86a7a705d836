// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"net/http/httptrace"
)

// InProcess returns a transport that calls a handler in this process. The handler receives the request like from a
// server. Its response is buffered in memory until it is complete.
func InProcess(h http.Handler) http.RoundTripper { return inProcess{h} }

type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
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
	w := &inMemory{header: http.Header{}}
	t.handler.ServeHTTP(w, in)
	// The response is incomplete if the handler stopped because the caller disconnected.
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w.status = cmp.Or(w.status, http.StatusOK)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// inMemory is a response in memory.
type inMemory struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *inMemory) Header() http.Header { return w.header }

func (w *inMemory) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
}

func (w *inMemory) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
