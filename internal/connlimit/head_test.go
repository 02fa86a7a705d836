// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// lines returns a request with a number of lines in its header.
func lines(n int) string {
	return "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("a:\r\n", n-1) + "\r\n"
}

// TestHead: the lines of a header are counted however they arrive. Those of a body are not.
func TestHead(t *testing.T) {
	body := strings.Repeat("\n", 1000)
	bare := strings.NewReplacer("\r", "")
	for _, c := range []struct{ name, sent, want string }{
		{"usual", lines(20), lines(20)},
		{"most lines", lines(maxLines) + body, lines(maxLines) + body},
		{"too many", lines(maxLines+1) + body, lines(maxLines) + body},
		{"line feeds only", bare.Replace(lines(maxLines)) + body, bare.Replace(lines(maxLines)) + body},
		{"too many line feeds", bare.Replace(lines(2*maxLines)) + body, bare.Replace(lines(maxLines)) + body},
		{"unfinished", strings.TrimSuffix(lines(maxLines+10), "\r\n"), strings.TrimSuffix(lines(maxLines), "\r\n")},
		{"unfinished line", strings.TrimSuffix(lines(maxLines), "\r\n") + "x: y", strings.TrimSuffix(lines(maxLines), "\r\n")},
		{"empty lines first", "\r\n\n" + lines(maxLines+1), "\r\n\n" + lines(maxLines)},
		{"one long line", "GET /" + strings.Repeat("x", 16<<10), "GET /" + strings.Repeat("x", 16<<10)},
	} {
		for _, size := range []int{1, 2, 3, 7, 4096, 1 << 20} {
			t.Run(fmt.Sprint(c.name, " in pieces of ", size), func(t *testing.T) {
				var h head
				var got strings.Builder
				for rest := []byte(c.sent); len(rest) > 0; {
					n := min(size, len(rest))
					kept, after := h.next(rest[:n])
					got.Write(kept)
					got.Write(after)
					rest = rest[n:]
				}
				require.Equal(t, c.want, got.String())
			})
		}
	}
}

// TestManyLinesRace: a server refuses a header with many lines, also over TLS, on each request of a connection, and before
// its end if it has none.
func TestManyLinesRace(t *testing.T) {
	known := httptest.NewTLSServer(nil) // provides the certificate
	known.Close()
	client := known.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	client.ServerName = "example.com" // of that certificate
	for _, secure := range []bool{false, true} {
		l := New(Config{Limit: 10})
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		var config *tls.Config
		if secure {
			config = &tls.Config{Certificates: known.TLS.Certificates}
		}
		srv := &http.Server{ConnState: l.ConnState, Handler: l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, r.TLS != nil)
		}))}
		var serving sync.WaitGroup
		serving.Go(func() { _ = srv.Serve(l.HTTPListener(inner, config)) })
		for before := range 3 {
			conn, err := net.Dial("tcp", inner.Addr().String())
			require.NoError(t, err)
			if secure {
				conn = tls.Client(conn, client)
			}
			answers := bufio.NewReader(conn)
			for range before {
				_, err = io.WriteString(conn, lines(maxLines))
				require.NoError(t, err)
				res, err := http.ReadResponse(answers, nil)
				require.NoError(t, err)
				body, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(secure), string(body))
			}
			sent := lines(maxLines + 1)
			switch before {
			case 1: // with the request before, and after empty lines
				sent = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n\n\n" + lines(maxLines+1)
			case 2:
				sent = strings.TrimSuffix(lines(16<<10), "\r\n")
			}
			_, err = io.WriteString(conn, sent)
			if before < 2 { // otherwise the server may close the connection before
				require.NoError(t, err)
			}
			res, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			if before == 1 {
				_, err = io.Copy(io.Discard, res.Body)
				require.NoError(t, err)
				res, err = http.ReadResponse(answers, nil)
				require.NoError(t, err)
			}
			require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, res.StatusCode)
			require.True(t, res.Close)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			_ = conn.Close()
		}
		if secure {
			conn, err := net.Dial("tcp", inner.Addr().String())
			require.NoError(t, err)
			_, err = io.WriteString(conn, lines(3))
			require.NoError(t, err)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, res.StatusCode)
			_ = conn.Close()
		}
		require.NoError(t, srv.Close())
		serving.Wait()
	}
}
