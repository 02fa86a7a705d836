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

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// hostileAnswers are what an agent backend does to a request, by the User-Agent that
// asks for it. Nothing of it is a 200.
var hostileAnswers = map[string]func(w http.ResponseWriter, r *http.Request){
	"hangs":    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"resets":   raw(""),
	"half":     raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":1}"),
	"no HTTP":  raw("SSH-2.0-x\r\n\r\n"),
	"chunks":   raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}"),
	"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
	"HTML": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>of-the-backend</html>") // a gateway that is gone needs no answer
	},
	"refuses": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "of-the-backend", http.StatusUnauthorized) },
	"fails": func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "of-the-backend", http.StatusInternalServerError)
	},
	"bomb": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packedBomb) // a gateway that is gone needs no answer
	},
	"header flood": flooding("HTTP/1.1 200 OK\r\n", "X-Of: "+strings.Repeat("x", 1000)+"\r\n"),
	"1xx flood":    flooding("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
}

// packedBomb is 64 MiB of spaces, packed.
var packedBomb = func() []byte {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	for range 64 {
		_, _ = zw.Write(bytes.Repeat([]byte(" "), 1<<20)) // into memory: cannot fail
	}
	_ = zw.Close()
	return b.Bytes()
}()

// raw answers with bytes and ends the connection.
func raw(answer string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		if conn := take(w); conn != nil {
			_, _ = io.WriteString(conn, answer) // it may be gone
			conn.Close()
		}
	}
}

// flooding goes on until nobody listens any more.
func flooding(begin, again string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn := take(w)
		if conn == nil {
			return
		}
		defer conn.Close()
		for _, err := io.WriteString(conn, begin); err == nil; _, err = io.WriteString(conn, again) {
		}
	}
}

// take takes the connection of a request, nil when that is not possible.
func take(w http.ResponseWriter) net.Conn {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return nil
	}
	return conn
}

// TestEveryOperationAgainstAHostileBackend has each forwarded operation meet each
// kind of answer. It is a 502 in time that tells nothing of the backend, and the next
// request is none the worse for it.
func TestEveryOperationAgainstAHostileBackend(t *testing.T) {
	t.Parallel()
	provider := startIssuer(t)
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server would not see that the gateway has gone
		if answer := hostileAnswers[r.UserAgent()]; answer != nil {
			answer(w, r)
			return
		}
		_, _ = io.WriteString(w, `{}`) // a gateway that is gone needs no answer
	}))
	t.Cleanup(b.Close)
	d := startDaemon(t, t.TempDir(), append(provider.flags(), "--bootstrap-api-key", bootstrapKey, "--agent-backend-url", b.URL, "--agent-timeout", "1s")...)
	require.Zero(t, d.assay(t, "organization", "set-external-id", "default", "org-1").code)
	user := provider.token(t, "org-1")

	ask := func(ctx context.Context, op, how string) (*answered, error) {
		method, path, _ := strings.Cut(op, " ")
		path = strings.NewReplacer("{execution_id}", "e", "{repository_id}", "r").Replace(path)
		return d.ask(ctx, method, d.rest+path, []byte(bodyOf(method)), "Authorization", "Bearer "+user, "User-Agent", how, "Content-Type", "application/json")
	}
	var all errgroup.Group
	all.SetLimit(4) // fewer failures in a row than have the gateway spare the backend
	for _, e := range endpoints {
		if !e.agent {
			continue
		}
		for how := range hostileAnswers {
			all.Go(func() error {
				a, err := ask(t.Context(), e.op, how)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", e.op, how, err)
				}
				if a.status != http.StatusBadGateway || !strings.Contains(string(a.body), `"code":"UPSTREAM_ERROR"`) || strings.Contains(string(a.body), "of-the-backend") {
					return fmt.Errorf("%s, %s: %d: %s", e.op, how, a.status, a.body)
				}
				a, err = ask(t.Context(), e.op, "good")
				if err != nil || a.status != http.StatusOK {
					return fmt.Errorf("%s after %s: %+v, %w", e.op, how, a, err)
				}
				return nil
			})
		}
	}
	require.NoError(t, all.Wait())
	require.Equal(t, 200, d.get(t, bootstrapKey, "/v1/services").status)
	d.stop(t)
	require.NotContains(t, d.read(t, d.log), "of-the-backend")
}
