// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMetricsBeyondLoopback checks that metrics on an address other than loopback require a credential with
// scope read, and do not show series of other organizations.
func TestMetricsBeyondLoopback(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		dir := filepath.Join(t.TempDir(), "data")
		cfg := testConfig(t, dir)
		cfg.HTTPAddress, cfg.BasePath = address, "/api"
		s, _ := startServer(t, cfg)
		_, port, err := net.SplitHostPort(s.http.Addr().String())
		require.NoError(t, err)
		metrics := "http://127.0.0.1:" + port + "/metrics"
		own := firstOrganizationID(t, s)
		other := strings.TrimSpace(call{}.run("organization", "create", "other", "--data-dir", dir).stdout)
		s.countOrganizations(t.Context())
		key := func(args ...string) string {
			r := call{}.run(append([]string{"key", "create", "--name", "k", "--data-dir", dir}, args...)...)
			require.Zero(t, r.code, r.stderr)
			return strings.TrimSpace(r.stdout)
		}
		ask := func(method, key, accept string) (*http.Response, string) {
			req, err := http.NewRequestWithContext(t.Context(), method, metrics, nil)
			require.NoError(t, err)
			req.Header.Set("Accept", accept)
			if key != "" {
				req.Header.Set("Authorization", "Bearer "+key)
			}
			res, err := client(t).Do(req)
			require.NoError(t, err)
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			return res, string(body)
		}
		refused := func(method, key string, status int, code string) {
			t.Helper()
			res, body := ask(method, key, "text/html")
			require.Equal(t, status, res.StatusCode, body)
			var failure struct{ Error struct{ Code string } }
			require.NoError(t, json.Unmarshal([]byte(body), &failure), body)
			require.Equal(t, code, failure.Error.Code)
		}
		refused("GET", "", 401, "MISSING_CREDENTIALS")
		refused("GET", testKey[:len(testKey)-1]+"0", 401, "INVALID_API_KEY")
		refused("GET", key("--scopes", "ingest,agent"), 403, "FORBIDDEN")
		refused("POST", testKey, 405, "METHOD_NOT_ALLOWED")

		organizations := func(key, accept string) (ids []string) {
			res, body := ask("GET", key, accept)
			require.Equal(t, 200, res.StatusCode, body)
			require.Contains(t, body, "assay_requests_total", "metrics of the process")
			seen := map[string]bool{}
			for _, id := range regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindAllString(body, -1) {
				if !seen[id] {
					seen[id], ids = true, append(ids, id)
				}
			}
			return ids
		}
		for _, accept := range []string{"", "application/openmetrics-text; version=1.0.0", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"} {
			require.Equal(t, []string{own}, organizations(testKey, accept))
			require.Equal(t, []string{other}, organizations(key("--organization", "other", "--scopes", "read"), accept))
		}
		res, body := ask("HEAD", testKey, "")
		require.Equal(t, 200, res.StatusCode)
		require.Empty(t, body)
	}
}

// TestMetricsOnLoopback checks that metrics on loopback require a credential of clients that used another name: they
// came by a proxy, or from a page whose name leads here.
func TestMetricsOnLoopback(t *testing.T) {
	s, _ := startServer(t, testConfig(t, filepath.Join(t.TempDir(), "data")))
	address := s.http.Addr().String()
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	for host, want := range map[string]int{
		address: 200, "localhost:" + port: 200, "localhost": 200, "[::1]:" + port: 200,
		"assay.example.com": 401, "assay.example.com:" + port: 401, "10.0.0.1": 401, "localhost.example.com": 401,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
		require.NoError(t, err)
		req.Host = host
		res, err := client(t).Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, host)
	}
	for _, header := range []string{"Forwarded", "Via", "X-Forwarded-For", "x-forwarded-host", "X-Real-IP"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
		require.NoError(t, err)
		req.Header.Set(header, "")
		res, err := client(t).Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, 401, res.StatusCode, header)
	}
	// An absolute target, as for a proxy, comes before the host.
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "GET http://localhost/metrics HTTP/1.1\r\nHost: assay.example.com\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 401, res.StatusCode)

	res, err = client(t).Post("http://"+address+"/metrics", "text/plain", nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 405, res.StatusCode)
}

// TestMetricsAddressBeyondLoopback checks that the separate metrics listener shows all organizations.
func TestMetricsAddressBeyondLoopback(t *testing.T) {
	cfg := testConfig(t, filepath.Join(t.TempDir(), "data"))
	cfg.HTTPAddress, cfg.MetricsAddress = "0.0.0.0:0", "0.0.0.0:0"
	s, _ := startServer(t, cfg)
	c := client(t)
	code, body := get(t, c, s.metricsURL(), "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, firstOrganizationID(t, s))
	code, _ = get(t, c, s.rootURL()+"/metrics", testKey)
	require.Equal(t, http.StatusNotFound, code)
}

func firstOrganizationID(t *testing.T, s *server) string {
	t.Helper()
	o, err := s.store.FindOrganizationByName(t.Context(), firstOrganization)
	require.NoError(t, err)
	return o.ID
}
