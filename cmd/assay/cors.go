// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rs/cors"
)

// maxOrigins limits --cors-allowed-origins.
const maxOrigins = 100

// preflightAge is how long a browser may reuse the answer to a preflight request.
const preflightAge = 10 * time.Minute

// anyOrigin allows pages of all origins.
const anyOrigin = "*"

// checkOrigins checks --cors-allowed-origins. An origin is compared as a whole, so one that no browser sends, such as
// with a path, would never match.
func checkOrigins(origins []string) error {
	if len(origins) > maxOrigins {
		return fmt.Errorf("more than %d origins", maxOrigins)
	}
	if slices.Contains(origins, anyOrigin) {
		if len(origins) > 1 {
			return errors.New("* allows all origins and excludes others")
		}
		return nil
	}
	for _, origin := range origins {
		u, err := url.Parse(origin)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || origin != u.Scheme+"://"+u.Host:
			return fmt.Errorf("%q is not an origin such as https://app.example.com or http://localhost:3000", origin)
		case strings.Contains(origin, "*") || origin != strings.ToLower(origin):
			return fmt.Errorf("%q is not an origin in lower case without wildcards", origin)
		case u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80":
			return fmt.Errorf("%q has the default port, which browsers omit", origin)
		}
	}
	return nil
}

// crossOrigin returns a middleware that lets pages of the allowed origins call a handler with the methods. It answers
// preflight requests without a credential, and never allows credentials that browsers keep, such as cookies. nil if no
// origin is allowed.
func (c *serverConfig) crossOrigin(methods ...string) func(http.Handler) http.Handler {
	if len(c.CORSAllowedOrigins) == 0 {
		return nil
	}
	return cors.New(cors.Options{
		AllowedOrigins: c.CORSAllowedOrigins,
		AllowedMethods: methods,
		AllowedHeaders: []string{"Authorization", "Baggage", "Content-Encoding", "Content-Type", "If-Modified-Since", "If-None-Match", "Traceparent", "Tracestate", "X-Request-Id"},
		ExposedHeaders: []string{"ETag", "Last-Modified", "Retry-After", "X-Request-Id"},
		MaxAge:         int(preflightAge.Seconds()),
	}).Handler
}

// withCrossOrigin applies crossOrigin to the paths of the API. It leaves out the dashboard, which has cookies.
func (s *server) withCrossOrigin(api http.Handler) http.Handler {
	wrap := s.cfg.crossOrigin(http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete)
	if wrap == nil {
		return api
	}
	wrapped := wrap(api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.basePath() == "" || s.isAPI(r.URL.Path) {
			wrapped.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}
