// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
)

// TestHeaderLimit checks that the server reads 16 KiB of headers, in one field or in many, and then responds
// without reading more.
func TestHeaderLimit(t *testing.T) {
	cfg := testConfig(t, filepath.Join(t.TempDir(), "data"))
	cfg.MetricsAddress = "127.0.0.1:0"
	s, _ := startServer(t, cfg)
	many := func(n int) string { return strings.Repeat("A: b\r\n", n/len("A: b\r\n")+1) }
	one := func(n int) string { return "Cookie: a=" + strings.Repeat("x", n) + "\r\n" }
	for name, listener := range map[string]struct {
		l           net.Listener
		method, url string
		ordinary    int // status with a header of ordinary size
	}{
		"REST":      {s.http, "GET", "/api/v1/services", http.StatusUnauthorized},
		"dashboard": {s.http, "GET", "/sign-in", http.StatusOK},
		"metrics":   {s.metrics, "GET", "/metrics", http.StatusOK},
		"OTLP/HTTP": {s.otlpHTTP, "POST", "/v1/traces", http.StatusUnauthorized},
	} {
		for what, header := range map[string]struct {
			text string
			want int
		}{
			"bearer and cookies":  {"Authorization: Bearer " + strings.Repeat("x", 8<<10) + "\r\n" + one(3<<10) + "\r\n", listener.ordinary},
			"one field":           {one(17<<10) + "\r\n", http.StatusRequestHeaderFieldsTooLarge},
			"many fields":         {many(17<<10) + "\r\n", http.StatusRequestHeaderFieldsTooLarge},
			"unfinished":          {one(17 << 10), http.StatusRequestHeaderFieldsTooLarge},
			"unfinished, in many": {many(50 << 10), http.StatusRequestHeaderFieldsTooLarge},
		} {
			conn, err := net.Dial("tcp", listener.l.Addr().String())
			require.NoError(t, err)
			require.NoError(t, conn.SetDeadline(time.Now().Add(assaytest.Limit)))
			_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\n%s", listener.method, listener.url, header.text)
			require.NoError(t, err)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err, "%s, %s", name, what)
			require.Equal(t, header.want, res.StatusCode, "%s, %s", name, what)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err, "%s, %s: the connection is reset", name, what)
			require.NoError(t, res.Body.Close())
			require.NoError(t, conn.Close())
		}
	}
}
