// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"assay/internal/assaytest"
)

// hostileAnswers are the responses of a hostile agent backend, selected by the User-Agent. The gateway must
// not pass any of them on as a 200.
var hostileAnswers = map[string]func(w http.ResponseWriter, r *http.Request){
	"hangs":    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"resets":   raw(""),
	"half":     raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":1}"),
	"no HTTP":  raw("SSH-2.0-x\r\n\r\n"),
	"chunks":   raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}"),
	"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
	"HTML": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>of-the-backend</html>") // the gateway may have disconnected
	},
	"refuses": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "of-the-backend", http.StatusUnauthorized) },
	"fails": func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "of-the-backend", http.StatusInternalServerError)
	},
	"bomb": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(compressedBomb) // the gateway may have disconnected
	},
	"header flood": flooding("HTTP/1.1 200 OK\r\n", "X-Of: "+strings.Repeat("x", 1000)+"\r\n"),
	"1xx flood":    flooding("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
}

// compressedBomb is 64 MiB of spaces, compressed.
var compressedBomb = func() []byte {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	for range 64 {
		_, _ = zw.Write(bytes.Repeat([]byte(" "), 1<<20)) // writing to memory cannot fail
	}
	_ = zw.Close()
	return b.Bytes()
}()

// raw sends raw bytes and closes the connection.
func raw(answer string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		if conn := take(w); conn != nil {
			_, _ = io.WriteString(conn, answer) // the peer may have disconnected
			conn.Close()
		}
	}
}

// flooding sends an endless response until the client disconnects.
func flooding(begin, repeated string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn := take(w)
		if conn == nil {
			return
		}
		defer conn.Close()
		for _, err := io.WriteString(conn, begin); err == nil; _, err = io.WriteString(conn, repeated) {
		}
	}
}

// take hijacks the connection of a request. It returns nil on failure.
func take(w http.ResponseWriter) net.Conn {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return nil
	}
	return conn
}

// TestEveryOperationAgainstAHostileBackend tests each forwarded operation with each kind of hostile response.
// The gateway answers 502 without details of the backend, and the next request succeeds.
func TestEveryOperationAgainstAHostileBackend(t *testing.T) {
	t.Parallel()
	provider := startIssuer(t)
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // without it the server does not notice that the gateway has disconnected
		if answer := hostileAnswers[r.UserAgent()]; answer != nil {
			answer(w, r)
			return
		}
		_, _ = io.WriteString(w, `{}`) // the gateway may have disconnected
	}))
	t.Cleanup(b.Close)
	d := startDaemon(t, t.TempDir(), append(provider.flags(), "--bootstrap-api-key", bootstrapKey, "--agent-backend-url", b.URL, "--agent-timeout", "1s")...)
	require.Zero(t, d.assay(t, "organization", "set-external-id", "default", "org-1").Code)
	user := provider.token(t, "org-1")

	ask := func(ctx context.Context, op, how string) (*answered, error) {
		method, path, _ := strings.Cut(op, " ")
		path = strings.NewReplacer("{execution_id}", "e", "{repository_id}", "r").Replace(path)
		return d.ask(ctx, method, d.REST+path, []byte(bodyOf(method)), "Authorization", "Bearer "+user, "User-Agent", how, "Content-Type", "application/json")
	}
	var all errgroup.Group
	all.SetLimit(4) // stay below the number of consecutive failures that open the gateway's circuit breaker
	for _, e := range endpoints {
		if !e.agent {
			continue
		}
		for how := range hostileAnswers {
			all.Go(func() error {
				// On a busy machine valid responses are late as well, which opens the circuit breaker for a
				// while.
				return assaytest.Await(t.Context(), assaytest.Limit, time.Second, func() error {
					a, err := ask(t.Context(), e.op, how)
					if err == nil && (a.Status != http.StatusBadGateway || !strings.Contains(string(a.Body), `"code":"UPSTREAM_ERROR"`)) {
						err = fmt.Errorf("%s, %s: %d: %s", e.op, how, a.Status, a.Body)
					}
					if err != nil {
						return err
					}
					if strings.Contains(string(a.Body), "of-the-backend") {
						t.Errorf("%s, %s: %s", e.op, how, a.Body)
					}
					a, err = ask(t.Context(), e.op, "good")
					if err == nil && a.Status != http.StatusOK {
						err = fmt.Errorf("%s after %s: %d: %s", e.op, how, a.Status, a.Body)
					}
					return err
				})
			})
		}
	}
	require.NoError(t, all.Wait())
	require.Equal(t, 200, d.get(t, bootstrapKey, "/v1/services").Status)
	d.stop(t)
	require.NotContains(t, d.Log.String(), "of-the-backend")
}
