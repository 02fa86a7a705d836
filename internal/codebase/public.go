// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"net/http"
	"slices"
	"strings"

	"assay"
	"assay/internal/codebase/source"
)

// Paths below the agent's URL that need no token: a source host or its user's browser requests them.
const (
	callbackPath = "/onboarding/callback/"
	webhookPath  = "/webhooks/"
)

// IsPublic reports whether a path below the agent's URL needs no token.
func IsPublic(path string) bool {
	return strings.HasPrefix(path, callbackPath) || strings.HasPrefix(path, webhookPath)
}

// public handles requests without a token.
func (s *server) public(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the URL has a code
	h.Set("X-Content-Type-Options", "nosniff")
	if kind, ok := strings.CutPrefix(r.URL.Path, callbackPath); ok && slices.Contains(s.cfg.Sources.Forges(), kind) {
		s.callback(w, r, kind)
		return
	}
	if kind, ok := strings.CutPrefix(r.URL.Path, webhookPath); ok && s.cfg.Sources.Webhooks(kind) {
		data, err := s.webhook(w, r, kind)
		status := s.write(w, r, "", data, err)
		s.cfg.Logger.DebugContext(r.Context(), "webhook answered", "kind", kind, "status", status)
		return
	}
	s.writeError(w, r, assay.Errorf(assay.CodeNotFound, "there is nothing at this path"))
}

// callbackURL returns the address to which a source host sends the browser.
func (s *server) callbackURL(kind string) string { return s.cfg.PublicURL + callbackPath + kind }

// kinds returns the kinds of sources that can be connected.
func (s *server) kinds() []string {
	return append(s.cfg.Sources.Forges(), source.KindGit, source.KindLocal)
}
