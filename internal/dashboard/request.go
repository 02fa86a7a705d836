// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"assay"
	"assay/internal/httpreply"
	"assay/internal/session"
)

// request is one request for a page.
type request struct {
	*Handler
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context // of the request, with a deadline
	session *assay.Session  // nil: not signed in
	now     time.Time
}

func (h *Handler) request(w http.ResponseWriter, r *http.Request) *request {
	return &request{Handler: h, w: w, r: r, ctx: r.Context(), session: h.cfg.Session(r.Context()), now: h.cfg.Now().UTC()}
}

// organization returns the id of the session's organization.
func (q *request) organization() string { return q.session.OrganizationID }

// view is the data of a page.
type view struct {
	Title   string // of the window
	Section string // of the navigation; "" for none
	Live    int    // seconds between updates; 0: the page does not change by itself
	Data    any

	// Filled by render.
	Session *assay.Session
	Agent   bool // the session can see repositories
	Now     time.Time
	Theme   string // light or dark; "": as the system has it
	Path    string // with the query, to come back to after the theme is changed; "": it cannot be
	Version string
	APIPath string
	Main    template.HTML
	Tag     string // ETag of Main
}

// render answers with a page. A request of the script, marked by session.BackgroundHeader, gets the page without its
// layout, or status 304 if the page is unchanged.
func (q *request) render(status int, page string, v view) error {
	t := q.pages[page]
	if t == nil {
		return fmt.Errorf("no template for the page %s", page)
	}
	v.Session, v.Now, v.Theme = q.session, q.now, q.theme()
	v.Version, v.APIPath, v.Agent = q.cfg.Version, q.cfg.APIPath, q.session != nil && q.hasAgent()
	if !q.reads() {
		v.Live = 0 // an update would replace the response to the form
	} else if v.Path == "" {
		v.Path = q.r.URL.RequestURI()
	}
	var organization string // does not wait
	switch {
	case status >= http.StatusInternalServerError:
	case q.session == nil:
		organization = assay.Anonymous
	default:
		organization = q.organization()
	}
	leave, err := q.cfg.CPU.Enter(q.ctx, organization)
	if err != nil {
		return err
	}
	leave = sync.OnceFunc(leave)
	defer leave()
	var main bytes.Buffer
	if err := t.ExecuteTemplate(&main, "main", &v); err != nil {
		return fmt.Errorf("page %s: %w", page, err)
	}
	body := main.Bytes()
	v.Tag = tagOf(body)
	header := q.w.Header()
	header.Set("Cache-Control", "no-store") // also prevents the Back button from showing it after the session
	if q.r.Header.Get(session.BackgroundHeader) == "" {
		v.Main = template.HTML(main.String())
		var whole bytes.Buffer
		if err := t.ExecuteTemplate(&whole, "layout", &v); err != nil {
			return fmt.Errorf("page %s: %w", page, err)
		}
		body = whole.Bytes()
	} else if status == http.StatusOK && q.reads() {
		header.Set("ETag", v.Tag)
		if httpreply.Matches(q.r, v.Tag) {
			q.w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	body, _ = httpreply.Compress(q.w, q.r, body)
	leave()
	httpreply.Write(q.w, q.r, status, "text/html; charset=utf-8", body)
	return nil
}

// reads reports whether the request's method is safe.
func (q *request) reads() bool { return q.r.Method == http.MethodGet || q.r.Method == http.MethodHead }

// tagOf returns an ETag. It is weak because the body may be compressed.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// done redirects the browser, unless the form failed.
func (q *request) done(err error, path string) error {
	if err != nil {
		return err
	}
	return q.redirect(path)
}

// redirect redirects the browser after a form was accepted.
func (q *request) redirect(path string) error {
	q.w.Header().Set("Cache-Control", "no-store")
	http.Redirect(q.w, q.r, path, http.StatusSeeOther)
	return nil
}

// signIn redirects the browser to the sign-in page, and back afterwards: to the page, or to the page of the form. The
// script gets an error status instead, because fetch follows redirects silently.
func (q *request) signIn() {
	q.w.Header().Set("Cache-Control", "no-store")
	if q.r.Header.Get(session.BackgroundHeader) != "" {
		q.w.WriteHeader(http.StatusUnauthorized)
		return
	}
	target, back := session.SignInPath, q.r.URL.RequestURI()
	if !q.reads() {
		back = formPage(q.r.URL.Path)
	}
	if back != "/" {
		target += "?" + url.Values{"return": {back}}.Encode()
	}
	http.Redirect(q.w, q.r, target, http.StatusSeeOther)
}

// formPage returns the page that contains the form with the given target.
func formPage(target string) string {
	switch {
	case strings.HasPrefix(target, "/insights/"):
		return path.Dir(target)
	case target == "/repositories/connect":
		return target
	case strings.HasPrefix(target, "/repositories/"):
		return path.Dir(target)
	case target == "/webhooks", strings.HasPrefix(target, "/webhooks/") && path.Base(target) == "delete",
		target == "/keys", strings.HasPrefix(target, "/keys/"):
		return target
	case strings.HasPrefix(target, "/webhooks/"):
		return path.Dir(target)
	default:
		return "/"
	}
}

// themeCookie stores the selected theme.
const themeCookie = "assay_theme"

// theme returns the selected theme, light or dark, or "" if none is selected.
func (q *request) theme() string {
	c, err := q.r.Cookie(themeCookie)
	if err != nil || c.Value != "light" && c.Value != "dark" {
		return ""
	}
	return c.Value
}

// setTheme stores a theme and redirects back.
func (h *Handler) setTheme(w http.ResponseWriter, r *http.Request) {
	const year = 365 * 24 * 60 * 60
	c := http.Cookie{Name: themeCookie, Path: "/", MaxAge: year, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: h.secure(r)}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	switch theme := r.PostFormValue("theme"); theme {
	case "light", "dark":
		c.Value = theme
	default:
		c.MaxAge = -1
	}
	http.SetCookie(w, &c)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, session.LocalPath(r.PostFormValue("return")), http.StatusSeeOther)
}

// maxForm bounds the body of a form in bytes.
const maxForm = 16 << 10

// secure reports whether browsers reach the server over TLS.
func (h *Handler) secure(r *http.Request) bool {
	if h.cfg.PublicURL != "" {
		return strings.HasPrefix(h.cfg.PublicURL, "https:")
	}
	return r.TLS != nil
}
