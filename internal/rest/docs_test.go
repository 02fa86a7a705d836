// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

// parsedPage is the parsed documentation.
type parsedPage struct {
	ids, links []string
	text       string
	elements   map[string]int
	attributes map[string]int
}

func parsePage(t *testing.T, body string) *parsedPage {
	t.Helper()
	p := &parsedPage{elements: map[string]int{}, attributes: map[string]int{}}
	var text strings.Builder
	open := []string{}
	z := html.NewTokenizer(strings.NewReader(body))
	for tt := z.Next(); tt != html.ErrorToken; tt = z.Next() {
		tok := z.Token()
		switch tt {
		case html.TextToken:
			text.WriteString(tok.Data)
		case html.StartTagToken:
			p.elements[tok.Data]++
			for _, a := range tok.Attr {
				p.attributes[a.Key]++
				switch a.Key {
				case "id":
					p.ids = append(p.ids, a.Val)
				case "href", "src":
					p.links = append(p.links, a.Val)
				}
			}
			if tok.Data != "meta" && tok.Data != "link" {
				open = append(open, tok.Data)
			}
		case html.EndTagToken:
			require.NotEmpty(t, open, tok.Data)
			require.Equal(t, open[len(open)-1], tok.Data, "elements are closed in order")
			open = open[:len(open)-1]
		}
	}
	require.Empty(t, open)
	p.text = text.String()
	return p
}

func TestDocs(t *testing.T) {
	f := newFixture(t)
	a := f.do(t, "GET", "/api/docs")
	require.Equal(t, 200, a.Code)
	require.Equal(t, "text/html; charset=utf-8", a.Header().Get("Content-Type"))
	require.Equal(t, docsPolicy, a.Header().Get("Content-Security-Policy"))
	require.Equal(t, "no-cache", a.Header().Get("Cache-Control"))
	require.Equal(t, 304, f.do(t, "GET", "/api/docs", "If-None-Match", a.Header().Get("ETag")).Code)
	require.Equal(t, a.Header(), f.do(t, "HEAD", "/api/docs").Header())

	page := parsePage(t, a.Body.String())
	require.Zero(t, page.elements["script"]+page.elements["style"]+page.elements["img"]+page.elements["iframe"])
	for name := range page.attributes {
		require.False(t, name == "style" || strings.HasPrefix(name, "on"), name)
	}
	known := map[string]bool{}
	for _, id := range page.ids {
		require.False(t, known[id], "two elements have the id %s", id)
		known[id] = true
	}
	for _, o := range f.h.doc.operations {
		require.True(t, known[o.ID], o.ID)
		require.Contains(t, page.text, o.Summary)
		require.Contains(t, page.text, o.path)
	}
	for name := range f.h.doc.Components.Schemas {
		require.True(t, known["schema-"+name], name)
	}
	for _, link := range page.links {
		if id, ok := strings.CutPrefix(link, "#"); ok {
			require.True(t, known[id], link)
			continue
		}
		// All other links refer to this server.
		b := f.do(t, "GET", "/api/"+link)
		require.Equal(t, 200, b.Code, link)
		require.NotEmpty(t, b.Body.String())
	}
	require.Contains(t, page.links, "docs/style.css")
	require.Equal(t, "text/css; charset=utf-8", f.do(t, "GET", "/api/docs/style.css").Header().Get("Content-Type"))
	for _, says := range []string{
		"INVALID_PARAMETERS", "comma-separated", "http://localhost:8080/api/v1/insights?service_id=", "user's session",
		`"total_percent": 94`, "Default: -created_at", "-X PATCH",
	} {
		require.Contains(t, strings.ToLower(page.text), strings.ToLower(says))
	}
	require.NotContains(t, page.text, "ZgotmplZ", "what html/template refused")
}

func TestDocsAreServedElsewhere(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.BasePath, c.PublicURL = "/x/y", "https://assay.example.com/" })
	body := f.do(t, "GET", "/x/y/docs").Body.String()
	require.Contains(t, body, "https://assay.example.com/x/y/v1/services")
	require.NotContains(t, body, "localhost")
}

func TestProse(t *testing.T) {
	require.EqualValues(t, "<p>a <code>b&lt;</code> &amp; c</p><p>d</p>", prose("a `b<` & c\n\nd"))
}

// writes records the slices that a handler writes.
type writes struct {
	*httptest.ResponseRecorder
	all [][]byte
}

func (w *writes) Write(p []byte) (int, error) {
	w.all = append(w.all, p)
	return len(p), nil
}

// TestFilesAreCompressedOnce checks that clients without a credential do not make the server compress again.
func TestFilesAreCompressedOnce(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{"/api/docs", "/api/openapi.json"} {
		w := &writes{ResponseRecorder: httptest.NewRecorder()}
		for range 2 {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Header.Set("Accept-Encoding", "gzip")
			f.h.ServeHTTP(w, r)
			require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
		}
		require.Len(t, w.all, 2)
		require.Same(t, &w.all[0][0], &w.all[1][0])
	}
}
