// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"log/slog"
	"net/http"
	"net/url"

	"assay/internal/session"
)

// SignInPage answers with the page for signing in.
func (h *Handler) SignInPage(w http.ResponseWriter, r *http.Request, status int, p session.SignInPage) {
	protect(w.Header())
	q := h.request(w, r)
	if err := q.render(status, "signin", view{Title: "Sign in", Path: session.SignInPath + "?" + url.Values{"return": {p.Return}}.Encode(), Data: p}); err != nil {
		q.log(slog.LevelError, err)
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	}
}

// Fail answers with an error page for a request that did not reach a page.
func (h *Handler) Fail(w http.ResponseWriter, r *http.Request, status int, message string) {
	protect(w.Header())
	title := http.StatusText(status)
	switch status {
	case http.StatusForbidden:
		title = "Not allowed"
	case http.StatusServiceUnavailable:
		title = "The data cannot be reached"
	}
	h.request(w, r).showError(status, title, message)
}
