// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const page = "https://app.example.com"

// fromPage sends a request like a browser for a page of an origin. It returns the response without its body.
func fromPage(t *testing.T, method, url, origin string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(""))
	require.NoError(t, err)
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client(t).Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Empty(t, resp.Header.Values("Access-Control-Allow-Credentials"))
	return resp
}

// preflight sends a preflight request.
func preflight(t *testing.T, url, origin, method, headers string) *http.Response {
	t.Helper()
	return fromPage(t, http.MethodOptions, url, origin, "Access-Control-Request-Method", method, "Access-Control-Request-Headers", headers)
}

func allowed(r *http.Response) []string { return r.Header.Values("Access-Control-Allow-Origin") }

func TestCrossOrigin(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	cfg.CORSAllowedOrigins = []string{page, "http://localhost:3000"}
	s, log := startServer(t, cfg)
	rest, otlp := s.restURL()+"/v1/services", "http://"+s.otlpHTTPAddr()+"/v1/traces"

	for _, origin := range cfg.CORSAllowedOrigins {
		for _, c := range []struct{ url, method, headers string }{
			{rest, "GET", "authorization,if-none-match"},
			{s.restURL() + "/v1/webhooks/x", "DELETE", "authorization"},
			{s.restURL() + "/v1/agent/repositories/x", "PATCH", "authorization,content-type"},
			{otlp, "POST", "authorization,content-encoding,content-type,traceparent"},
		} {
			r := preflight(t, c.url, origin, c.method, c.headers)
			require.Equal(t, http.StatusNoContent, r.StatusCode, "without a credential")
			require.Equal(t, []string{origin}, allowed(r))
			require.Equal(t, c.method, r.Header.Get("Access-Control-Allow-Methods"))
			require.Equal(t, c.headers, r.Header.Get("Access-Control-Allow-Headers"))
			require.Equal(t, "600", r.Header.Get("Access-Control-Max-Age"))
			require.Contains(t, strings.Join(r.Header.Values("Vary"), ", "), "Origin")
		}
		r := fromPage(t, "GET", rest, origin, "Authorization", "Bearer "+testKey)
		require.Equal(t, http.StatusOK, r.StatusCode)
		require.Equal(t, []string{origin}, allowed(r))
		require.Contains(t, r.Header.Get("Access-Control-Expose-Headers"), "Etag")
		require.Contains(t, strings.Join(r.Header.Values("Vary"), ", "), "Origin")
		require.Contains(t, strings.Join(r.Header.Values("Vary"), ", "), "Authorization", "the Vary header of the API")
		r = fromPage(t, "POST", otlp, origin, "Authorization", "Bearer "+testKey, "Content-Type", "application/x-protobuf")
		require.Equal(t, http.StatusOK, r.StatusCode)
		require.Equal(t, []string{origin}, allowed(r))
		// Pages can read errors as well.
		for _, url := range []string{rest, s.restURL() + "/nothing"} {
			r = fromPage(t, "GET", url, origin)
			require.GreaterOrEqual(t, r.StatusCode, 400)
			require.Equal(t, []string{origin}, allowed(r))
		}
	}

	// For other origins there is no header, so browsers hide the response from the page.
	for _, origin := range []string{
		"https://evil.example", "http://app.example.com", "https://app.example.com:8443", "https://app.example.com.evil.example", "https://evil-app.example.com",
		"https://xapp.example.com", "https://app.example.com/", "https://app.example.comx", "null", "*", "https://app.example.com,https://evil.example",
		"https://evil.example https://app.example.com", "file://", "http://localhost:3001", "http://localhost",
	} {
		for _, url := range []string{rest, otlp} {
			r := preflight(t, url, origin, "POST", "authorization")
			require.Empty(t, allowed(r), origin)
			require.Empty(t, r.Header.Values("Access-Control-Allow-Methods"))
			require.Contains(t, strings.Join(r.Header.Values("Vary"), ", "), "Origin")
		}
		r := fromPage(t, "GET", rest, origin, "Authorization", "Bearer "+testKey)
		require.Empty(t, allowed(r), origin)
		require.Contains(t, strings.Join(r.Header.Values("Vary"), ", "), "Origin")
	}
	for _, c := range []struct{ url, method, headers string }{
		{otlp, "DELETE", ""}, {rest, "TRACE", ""}, {rest, "GET", "cookie"}, {rest, "GET", "authorization,x-other"},
	} {
		require.Empty(t, allowed(preflight(t, c.url, page, c.method, c.headers)), c)
	}
	// The dashboard uses cookies, and the other endpoints are for programs.
	for _, url := range []string{s.rootURL() + "/sign-in", s.rootURL() + "/", s.rootURL() + "/mcp", s.rootURL() + jwksPath} {
		require.Empty(t, allowed(fromPage(t, "GET", url, page, "Accept", "text/html")), url)
		require.Empty(t, allowed(preflight(t, url, page, "POST", "content-type")), url)
	}
	// An OPTIONS request without the CORS headers is not a preflight request.
	require.Equal(t, http.StatusMethodNotAllowed, fromPage(t, http.MethodOptions, otlp, page).StatusCode)
	requireNoErrors(t, log)
}

func TestAnyOrigin(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	cfg.CORSAllowedOrigins = []string{anyOrigin}
	s, _ := startServer(t, cfg)
	for _, origin := range []string{page, "null"} {
		require.Equal(t, []string{"*"}, allowed(preflight(t, s.restURL()+"/v1/services", origin, "GET", "authorization")))
		require.Equal(t, []string{"*"}, allowed(fromPage(t, "GET", s.restURL()+"/v1/services", origin)))
	}
	require.Empty(t, allowed(fromPage(t, "GET", s.rootURL()+"/sign-in", page, "Accept", "text/html")))
}

// TestNoCrossOrigin checks that CORS is off by default.
func TestNoCrossOrigin(t *testing.T) {
	s, _ := startServer(t, testConfig(t, t.TempDir()))
	otlp := "http://" + s.otlpHTTPAddr() + "/v1/traces"
	for _, url := range []string{s.restURL() + "/v1/services", otlp} {
		r := preflight(t, url, page, "POST", "authorization")
		require.Equal(t, http.StatusMethodNotAllowed, r.StatusCode)
		require.Empty(t, allowed(r))
		require.Empty(t, allowed(fromPage(t, "GET", url, page)))
	}
}
