// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

// newTLSBackend is one that speaks HTTP/2. clients, where there are some, sign the
// certificates of those it talks to.
func newTLSBackend(t testing.TB, clients *x509.CertPool, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if clients != nil {
		s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func writePEM(t testing.TB, kind string, der []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.pem")
	require.NoError(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return name
}

// trusting makes a gateway take the certificate of a server.
func trusting(t testing.TB, s *httptest.Server) func(*Config) {
	name := writePEM(t, "CERTIFICATE", s.Certificate().Raw)
	return func(c *Config) { c.CAFile = name }
}

// TestHTTP2: one connection carries all, and each request as it came.
func TestHTTP2(t *testing.T) {
	var mu sync.Mutex
	from := map[string]bool{}
	s := newTLSBackend(t, nil, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		from[r.RemoteAddr] = true
		mu.Unlock()
		if r.Proto != "HTTP/2.0" || r.Header.Get("Authorization") != "Bearer "+token || len(r.Header["User-Agent"]) > 0 {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Etag", `"v1"`)
		_, _ = io.WriteString(w, `{"data":["`+r.Method+`","`+r.RequestURI+`","`+string(body)+`"],"meta":{"total":3}}`)
	})
	f := newFixture(t, s.URL+"/base", trusting(t, s))
	for range 3 {
		c := get("/executions/a%20b%252F")
		c.Query = "a=1;b=2&c=%zz&d=+%2B&e=&&f=%E2%9C%93"
		a, err := f.Forward(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, `["GET","/base/executions/a%20b%252F?a=1;b=2&c=%zz&d=+%2B&e=&&f=%E2%9C%93",""]`, string(a.Data))
		require.EqualValues(t, 3, *a.Total)
		require.Equal(t, `"v1"`, a.ETag)
		a, err = f.Forward(t.Context(), post("/x", "7"))
		require.NoError(t, err)
		require.Equal(t, `["POST","/base/x","7"]`, string(a.Data))
	}
	require.Len(t, from, 1)
}

// TestHostileHTTP2: a failure of an HTTP/2 stream has the same result as a failure of a connection.
func TestHostileHTTP2(t *testing.T) {
	hung := make(chan struct{}, 1)
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		code    assay.Code
		outcome Outcome
	}{
		"reset": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, assay.CodeUpstream, OutcomeBroken},
		"half a body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = io.WriteString(w, "{")
		}, assay.CodeUpstream, OutcomeBroken},
		"header flood": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				w.Header().Add("X", strings.Repeat("x", 1000+i))
			}
		}, assay.CodeUpstream, OutcomeBroken},
		"1xx flood": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", strings.Repeat("x", 10_000))
			for range 100 {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}, assay.CodeUpstream, OutcomeBroken},
		"hang": {func(_ http.ResponseWriter, r *http.Request) { hung <- struct{}{}; <-r.Context().Done() }, assay.CodeUpstream, OutcomeTimeout},
		"503":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, assay.CodeUnavailable, OutcomeBackendError},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTLSBackend(t, nil, c.answer)
			f := newFixture(t, s.URL, trusting(t, s))
			ended := make(chan error, 1)
			go func() {
				_, err := f.Forward(t.Context(), post("/x", "{}"))
				ended <- err
			}()
			if name == "hang" {
				<-hung
				f.expire()
			}
			require.Equal(t, c.code, assay.ErrorCode(<-ended))
			require.Equal(t, c.outcome, f.event(t).Outcome)
			require.Equal(t, 1, f.failures())
		})
	}
}

func TestClientCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "assay"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(cert)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	clients := x509.NewCertPool()
	clients.AddCert(parsed)
	s := newTLSBackend(t, clients, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `"`+r.TLS.PeerCertificates[0].Subject.CommonName+`"`)
	})
	certFile, keyFile := writePEM(t, "CERTIFICATE", cert), writePEM(t, "PRIVATE KEY", private)
	f := newFixture(t, s.URL, trusting(t, s), func(c *Config) { c.CertFile, c.KeyFile = certFile, keyFile })
	a, err := f.Forward(t.Context(), get("/x"))
	require.NoError(t, err)
	require.Equal(t, `"assay"`, string(a.Data))

	_, err = newFixture(t, s.URL, trusting(t, s)).Forward(t.Context(), get("/x"))
	require.Contains(t, []assay.Code{assay.CodeUnavailable, assay.CodeUpstream}, assay.ErrorCode(err))
}
