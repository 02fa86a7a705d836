// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/receive"
)

// pipeListener accepts one connection.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (pipeListener) Close() error   { return nil }
func (pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// slowWriter sends its response after two seconds.
type slowWriter struct{ http.ResponseWriter }

func (w slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w slowWriter) WriteHeader(status int) {
	time.Sleep(2 * time.Second)
	w.ResponseWriter.WriteHeader(status)
}

// TestConnectionAfterDeadline: a read deadline that passes while a request is received or after it does not cancel the
// later requests of its connection.
func TestConnectionAfterDeadline(t *testing.T) {
	protobuf, _ := sample(t, signals[0], 100) // more than the server reads with the header
	for name, c := range map[string]struct {
		media  string // of the first request
		around func(next http.Handler, w http.ResponseWriter, r *http.Request)
		first  int
		second int
		closed bool
	}{
		"body interrupted": {"text/plain", func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			require.NoError(t, control.SetReadDeadline(time.Unix(1, 0)))
			_, err := io.ReadAll(r.Body)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			next.ServeHTTP(w, r) // reads the rest
		}, http.StatusUnsupportedMediaType, 0, true},
		"canceled after the body": {"text/plain", func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.NoError(t, http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)))
			<-r.Context().Done()
			next.ServeHTTP(w, r)
		}, http.StatusUnsupportedMediaType, 0, true},
		"refused after the body, slowly": {"text/plain", func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			next.ServeHTTP(slowWriter{w}, r)
		}, http.StatusUnsupportedMediaType, http.StatusUnsupportedMediaType, false},
		"canceled after the response": {"application/x-protobuf", func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			require.NoError(t, http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)))
			<-r.Context().Done()
		}, http.StatusOK, http.StatusOK, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := receive.New(receive.Config{Authenticate: authenticate, Ingester: &ingester{}})
				require.NoError(t, err)
				client, server := net.Pipe()
				l := make(pipeListener, 1)
				l <- server
				var began error // the state of the last request's context at its begin
				s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
					began = hr.Context().Err()
					c.around(r.HTTPHandler(), w, hr)
				})}
				served := make(chan error, 1)
				go func() { served <- s.Serve(l) }()
				from := bufio.NewReader(client)
				send := func(media string) *http.Response {
					hr, err := http.NewRequest(http.MethodPost, "http://localhost/v1/traces", strings.NewReader(string(protobuf)))
					require.NoError(t, err)
					hr.Header.Set("Content-Type", media)
					hr.Header.Set("Authorization", goodKey)
					go func() { _ = hr.Write(client) }()
					response, err := http.ReadResponse(from, hr)
					require.NoError(t, err)
					require.NoError(t, response.Body.Close())
					return response
				}
				response := send(c.media)
				require.Equal(t, c.first, response.StatusCode)
				if c.second > 0 {
					response = send(c.media)
					require.Equal(t, c.second, response.StatusCode)
				}
				require.Equal(t, c.closed, response.Close)
				require.Equal(t, c.closed && c.second > 0, began != nil)
				require.NoError(t, client.Close())
				close(l)
				require.ErrorIs(t, <-served, net.ErrClosed)
			})
		})
	}
}
