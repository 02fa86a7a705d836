// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSnippets(t *testing.T) {
	for name, tc := range map[string]struct {
		overHTTP, overGRPC, asked string
		wantHTTP, wantGRPC        string
		plain                     bool // gRPC without TLS
	}{
		"as configured":     {"http://10.0.0.1:4318", "http://10.0.0.1:4317", "assay.prod:8080", "http://10.0.0.1:4318", "10.0.0.1:4317", true},
		"as asked for":      {"http://:4318", "http://:4317", "assay.prod:8080", "http://assay.prod:4318", "assay.prod:4317", true},
		"asked by TLS":      {"https://:4318", "https://:4317", "assay.prod", "https://assay.prod:4318", "assay.prod:4317", false},
		"asked by IPv6":     {"http://:4318", "http://:4317", "[2001:db8::1]:8080", "http://[2001:db8::1]:4318", "[2001:db8::1]:4317", true},
		"IPv6 alone":        {"http://:4318", "http://:4317", "[::1]", "http://[::1]:4318", "[::1]:4317", true},
		"no port":           {"https://otlp.example.com", "https://otlp.example.com", "x", "https://otlp.example.com", "otlp.example.com:443", false},
		"no port, plain":    {"http://otlp.example.com", "http://otlp.example.com", "x", "http://otlp.example.com", "otlp.example.com:80", true},
		"a Host for shells": {"http://:4318", "http://:4317", "$(reboot):8080", "http://localhost:4318", "localhost:4317", true},
		"no Host":           {"http://:4318", "http://:4317", "", "http://localhost:4318", "localhost:4317", true},
	} {
		r := httptest.NewRequest("GET", "/keys", nil)
		r.Host = tc.asked
		q := &request{Handler: &Handler{cfg: Config{OTLPHTTP: tc.overHTTP, OTLPGRPC: tc.overGRPC}}, r: r}
		s := q.snippets("k")
		require.Contains(t, s.Environment, "OTEL_EXPORTER_OTLP_ENDPOINT="+tc.wantHTTP+"\n", name)
		require.Contains(t, s.Collector, "    endpoint: "+tc.wantGRPC+"\n", name)
		require.Equal(t, tc.plain, strings.Contains(s.Collector, "insecure: true"), name)
	}
}

// FuzzEndpoint checks that the snippets are safe in a shell and in YAML for any Host header.
func FuzzEndpoint(f *testing.F) {
	for _, host := range []string{"assay.prod:8080", "[::1]:8080", "::1", "", ":", "a b", "$(x)", "a\nb", "fe80::1%eth0", "%zz"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		u := endpoint("http://:4318", host)
		require.Regexp(t, `^http://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):4318$`, u.String())
		require.Equal(t, u.Host, withPort(u))
	})
}
