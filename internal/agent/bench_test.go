// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/agent"
	"assay/internal/rest"
)

// BenchmarkForward sends the same requests through the API with its gateway and
// through httputil.ReverseProxy, by turns, and reports the medians. The backend
// answers with a page of events in the envelope.
func BenchmarkForward(b *testing.B) {
	page := `{"data":[` + strings.Repeat(`{"seq":1,"type":"tool_call","text":"looked at a file"},`, 30) + `{}],"meta":{"total":31}}`
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, page)
	}))
	defer backend.Close()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(b, err)
	g, err := agent.New(agent.Config{
		URL: backend.URL,
		Sign: func(_ context.Context, p *assay.Principal) (string, error) {
			claims, err := json.Marshal(map[string]any{"sub": p.Subject, "org_id": p.OrganizationID, "exp": time.Now().Unix(), "jti": rand.Text()})
			token := "eyJhbGciOiJFZERTQSJ9." + base64.RawURLEncoding.EncodeToString(claims)
			return token + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(token))), err
		},
	})
	require.NoError(b, err)
	defer g.Close()
	gateway := httptest.NewServer(rest.New(rest.Config{
		BasePath: "/api", Agent: g,
		Authenticate: func(context.Context, string, string) (*assay.Principal, error) {
			return &assay.Principal{OrganizationID: "org-1", Subject: "key:abc123", Scopes: assay.Scopes()}, nil
		},
		Ready: func(context.Context) []rest.Check { return nil },
	}))
	defer gateway.Close()
	target, err := url.Parse(backend.URL)
	require.NoError(b, err)
	bare := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	defer bare.Close()

	const path = "/api/v1/agent/executions/run-1/agent-events?afterSeq=17"
	fronts := []string{gateway.URL + path, bare.URL + path, backend.URL + path}
	took := make([][]time.Duration, len(fronts))
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	request := func(url string) time.Duration {
		began := time.Now()
		resp, err := client.Get(url)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(b, err)
		resp.Body.Close()
		require.Equal(b, http.StatusOK, resp.StatusCode)
		return time.Since(began)
	}
	for range 200 { // connections, caches
		for _, url := range fronts {
			request(url)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		for i, url := range fronts {
			took[i] = append(took[i], request(url))
		}
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2].Nanoseconds()) / 1e3
	}
	b.ReportMetric(median(took[0]), "gateway-p50-µs")
	b.ReportMetric(median(took[1]), "proxy-p50-µs")
	b.ReportMetric(median(took[2]), "direct-p50-µs")
	b.ReportMetric(median(took[0])/median(took[1]), "gateway/proxy")
}
