// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"assay"
	"assay/internal/dashboard"
	"assay/internal/dashboard/dashboardtest"
	"assay/internal/fair"
	"assay/internal/rules/catalog"
	"assay/internal/session"
)

// site is the pages of a world, without a network.
type site struct {
	t *testing.T
	*dashboardtest.World
	handler *dashboard.Handler
}

func newSite(t *testing.T, w *dashboardtest.World, change ...func(*dashboard.Config)) *site {
	t.Helper()
	cfg := dashboardtest.Config(w, dashboardtest.Session())
	for _, c := range change {
		c(&cfg)
	}
	h, err := dashboard.New(cfg)
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return &site{t, w, h}
}

// as sets the session of requests.
func as(signedIn *assay.Session) func(*dashboard.Config) {
	return func(c *dashboard.Config) { c.Session = func(context.Context) *assay.Session { return signedIn } }
}

func (s *site) do(r *http.Request) *http.Response {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w.Result()
}

func (s *site) get(path string, headers ...string) *http.Response {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return s.do(r)
}

func (s *site) post(path string, form url.Values) *http.Response {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.do(r)
}

func read(t *testing.T, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(body)
}

// page returns the text of a page that must exist.
func (s *site) page(path string) string {
	s.t.Helper()
	r := s.get(path)
	body := read(s.t, r)
	require.Equal(s.t, http.StatusOK, r.StatusCode, "%s\n%s", path, body)
	return body
}

func (s *site) service(name string) *assay.ServiceRow {
	i := slices.IndexFunc(s.Rows, func(r *assay.ServiceRow) bool { return r.Name == name })
	require.GreaterOrEqual(s.t, i, 0)
	return s.Rows[i]
}

func (s *site) insight(kind string) *assay.Insight {
	i := slices.IndexFunc(s.Found, func(i *assay.Insight) bool { return i.Type == kind })
	require.GreaterOrEqual(s.t, i, 0)
	return s.Found[i]
}

// elements returns the elements of a page.
func elements(t *testing.T, page string) []*html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	var all []*html.Node
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			all = append(all, n)
		}
	}
	return all
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// crawl reads every page that is reachable by links and GET forms, and passes each to check.
func (s *site) crawl(check func(path, page string, all []*html.Node)) int {
	seen := map[string]bool{"/": true}
	queue := []string{"/"}
	for n := 0; n < len(queue); n++ {
		path := queue[n]
		page := s.page(path)
		all := elements(s.t, page)
		check(path, page, all)
		for _, e := range all {
			link := attribute(e, "href")
			if e.Data != "a" || !strings.HasPrefix(link, "/") || strings.HasPrefix(link, "/api/") {
				continue
			}
			link, _, _ = strings.Cut(link, "#")
			// All pages of a list, and one for each sort order and filter, are enough.
			if path, query, _ := strings.Cut(link, "?"); strings.Count(query, "&") > 0 && path != "/insights" || strings.Contains(query, "period=") && query != "period=7d" {
				continue
			}
			if !seen[link] && len(queue) < 90 {
				seen[link], queue = true, append(queue, link)
			}
		}
	}
	return len(queue)
}

// wellFormed checks the properties that every page must have.
func wellFormed(t *testing.T, path, page string, all []*html.Node) {
	t.Helper()
	ids := map[string]bool{}
	headings := 0
	for _, e := range all {
		for _, a := range e.Attr {
			switch {
			case a.Key == "style", strings.HasPrefix(a.Key, "on"):
				require.Fail(t, "an attribute that the policy forbids", "%s: %s", path, a.Key)
			case a.Key == "id":
				require.False(t, ids[a.Val], "%s: two of %s", path, a.Val)
				ids[a.Val] = true
			case a.Key == "href", a.Key == "src", a.Key == "action":
				local := a.Val == "" || strings.HasPrefix(a.Val, "#") || strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//")
				require.True(t, local || strings.HasPrefix(a.Val, "https://"), "%s: %s", path, a.Val)
			}
		}
		switch e.Data {
		case "script":
			require.True(t, strings.HasPrefix(attribute(e, "src"), "/assets/"), path)
			require.Nil(t, e.FirstChild, path)
		case "style", "iframe", "object", "embed", "base", "img":
			require.Fail(t, "an element that no page has", "%s: %s", path, e.Data)
		case "h1":
			headings++
		case "tbody": // the script follows rows by their keys
			keys := map[string]bool{}
			for row := range e.ChildNodes() {
				if row.Type != html.ElementNode {
					continue
				}
				key := attribute(row, "data-key")
				require.NotEmpty(t, key, "%s: a row without a key", path)
				require.False(t, keys[key], "%s: two rows with the key %s", path, key)
				keys[key] = true
			}
		}
	}
	require.Equal(t, 1, headings, path)
	require.NotContains(t, page, "ZgotmplZ", path) // the output of html/template for a rejected value
	require.NotContains(t, page, "<no value>", path)
	require.True(t, utf8.ValidString(page), path)
	hidden := strings.IndexFunc(page, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' })
	require.Equal(t, -1, hidden, "%s: a character that is not seen", path)
}

func TestEveryPageIsThere(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	n := s.crawl(func(path, page string, all []*html.Node) { wellFormed(t, path, page, all) })
	require.Equal(t, 90, n, "pages of services, insights and rules are reached by links")
}

func TestNamesOfStrangersAreHarmless(t *testing.T) {
	s := newSite(t, dashboardtest.Strangers())
	n := s.crawl(func(path, page string, all []*html.Node) {
		wellFormed(t, path, page, all)
		require.NotContains(t, page, strings.Repeat("\u0301", 4), path)
		for _, e := range all {
			if e.Data == "title" && e.Parent.Data == "head" {
				require.Less(t, utf8.RuneCountInString(e.FirstChild.Data), 400, path)
			}
		}
	})
	require.Equal(t, 90, n)
	list := s.page("/services")
	for _, shown := range []string{
		"&lt;script&gt;alert(1)&lt;/script&gt;", "⟨U+202E⟩", "⟨U+2066⟩", "⟨U+200B⟩", "⟨U+0000⟩", "⟨U+001B⟩", "⟨FF⟩", "⟨U+000A⟩", "⟨U+FEFF⟩", "{{.Secret}}",
	} {
		require.Contains(t, list, shown, "readable")
	}
	require.NotContains(t, list, strings.Repeat("W", 200))
	// The full text is reachable wherever a truncated one is shown.
	for n, r := range s.Rows {
		texts := textsOf(t, s.page("/services/"+r.ID))
		for _, field := range []string{r.Name, r.Namespace, r.Environment, r.Version} {
			require.Contains(t, texts["bdi"], dashboard.WholeText(field), "service %d", n)
		}
		require.GreaterOrEqual(t, count(texts["dd"], dashboard.WholeText(r.Version)), 3, "service %d: namespace, environment and version", n)
	}
	for n, i := range s.Found {
		page := s.page("/insights/" + i.ID)
		texts := textsOf(t, page)
		h := dashboardtest.Hostile[n%len(dashboardtest.Hostile)]
		reason := dashboard.WholeText(h)
		h = dashboard.WholeText(string([]rune(h))) // evidence is JSON and therefore valid UTF-8
		items := count(texts["li"], h)
		if h != reason {
			items += count(texts["li"], reason)
		}
		require.GreaterOrEqual(t, items, 9, "insight %d: seven lists, the kind of a finding and a value", n)
		require.Equal(t, 1, count(texts["th"], h), "insight %d: a resource attribute", n)
		for _, field := range []string{i.Service.Name, i.Service.Namespace, i.Service.Environment, i.Service.Version} {
			require.Contains(t, texts["dd"], dashboard.WholeText(field), "insight %d", n)
		}
		if i.Status == assay.InsightMuted {
			require.Contains(t, texts["div"], reason, "insight %d: the reason of the mute", n)
		}
		for _, e := range elements(t, page) {
			require.False(t, e.Data == "details" && slices.Contains([]string{"p", "span", "h1", "h3", "a"}, e.Parent.Data), "insight %d: an element that opens in <%s>", n, e.Parent.Data)
		}
	}
}

// textsOf returns the texts of a page by element. The text of a bdi element is also listed under each
// enclosing element.
func textsOf(t *testing.T, page string) map[string][]string {
	t.Helper()
	texts := map[string][]string{}
	for _, e := range elements(t, page) {
		if e.Data != "bdi" {
			continue
		}
		text := textOf(e)
		texts["bdi"] = append(texts["bdi"], text)
		around := e.Parent
		for around.Data == "details" || around.Data == "summary" || around.Data == "a" {
			around = around.Parent
		}
		if around.Data == "div" && around.Parent.Data == "li" {
			around = around.Parent
		}
		texts[around.Data] = append(texts[around.Data], text)
	}
	return texts
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

func TestResponseHeaders(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	asset := regexp.MustCompile(`/assets/[0-9a-f]+/app\.css`).FindString(s.page("/"))
	for _, path := range []string{"/", "/services", "/services?band=none", "/services/x", "/nothing", "/assets/nothing", asset, "/favicon.ico", "//a", "/services/../x"} {
		h := s.get(path).Header
		require.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self'", path)
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", path)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "same-origin", h.Get("Referrer-Policy"), path)
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Opener-Policy"), path)
	}
	require.Equal(t, http.StatusSeeOther, s.post("/theme", url.Values{"theme": {"dark"}}).StatusCode)
}

func TestConditionalRequests(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	for _, path := range []string{"/", "/services", "/services/" + s.Rows[0].ID, "/insights", "/insights/" + s.Found[0].ID, "/costs", "/rules", "/rules/RES-001", "/keys", "/webhooks", "/webhooks/" + dashboardtest.WebhookID, "/repositories", "/repositories/connect", "/repositories/" + dashboardtest.RepositoryID, "/repositories/" + dashboardtest.RepositoryID + "/findings/" + dashboardtest.FindingID, "/findings", "/runs", "/runs/" + dashboardtest.RunID} {
		first := s.get(path)
		require.Equal(t, "no-store", first.Header.Get("Cache-Control"), path)
		require.Empty(t, first.Header.Get("ETag"), path)

		// The script requests only the page, with its own ETag.
		page, tag := read(t, first), ""
		for _, e := range elements(t, page) {
			if attribute(e, "id") == "main" {
				tag = attribute(e, "data-tag")
			}
		}
		again := s.get(path, "Assay-Live", "1", "If-None-Match", tag)
		require.Equal(t, http.StatusNotModified, again.StatusCode, path)
		require.Equal(t, "no-store", again.Header.Get("Cache-Control"), path)
		require.Empty(t, read(t, again), path)
		require.Equal(t, http.StatusOK, s.get(path, "Assay-Live", "1", "If-None-Match", `W/"another"`).StatusCode, path)
		fragment := read(t, s.get(path, "Assay-Live", "1"))
		require.True(t, strings.HasPrefix(fragment, `<div id="page"`), path)
		require.Contains(t, page, fragment, path)
	}
	before := s.get("/", "Assay-Live", "1").Header.Get("ETag")
	s.Organization.ServicesCount++
	require.NotEqual(t, before, s.get("/", "Assay-Live", "1").Header.Get("ETag"), "a changed page is sent")
}

func packedSize(t *testing.T, s *site, path string) int {
	t.Helper()
	r := s.get(path, "Accept-Encoding", "gzip")
	require.Equal(t, http.StatusOK, r.StatusCode, path)
	packed := read(t, r)
	if r.Header.Get("Content-Encoding") == "gzip" {
		plain, err := gzip.NewReader(strings.NewReader(packed))
		require.NoError(t, err)
		whole, err := io.ReadAll(plain)
		require.NoError(t, err)
		require.Equal(t, read(t, s.get(path)), string(whole), path)
	}
	return len(packed)
}

// TestWeight checks the compressed size of a first visit and of a next page.
func TestWeight(t *testing.T) {
	const first, next = 250 << 10, 30 << 10
	s := newSite(t, dashboardtest.Shop())
	for range 5 { // more than a page of everything
		s.Rows, s.Found = append(s.Rows, s.Rows[:20]...), append(s.Found, s.Found[:20]...)
	}
	assets := map[string]bool{}
	for _, path := range []string{
		"/", "/?period=30d", "/services", "/services/" + s.service("courier").ID, "/services/" + s.service("checkout").ID,
		"/insights", "/insights/" + s.Found[0].ID, "/costs", "/rules", "/rules/SPA-006", "/keys", "/webhooks", "/webhooks/" + dashboardtest.WebhookID,
		"/repositories", "/repositories/connect", "/repositories/" + dashboardtest.RepositoryID, "/repositories/" + dashboardtest.RepositoryID + "/findings/" + dashboardtest.FindingID, "/findings", "/runs", "/runs/" + dashboardtest.RunID,
	} {
		size := packedSize(t, s, path)
		require.Less(t, size, next, path)
		for _, a := range regexp.MustCompile(`"(/assets/[^"]+)"`).FindAllStringSubmatch(s.page(path), -1) {
			assets[a[1]] = true
		}
	}
	sum := packedSize(t, s, "/")
	for a := range assets {
		sum += packedSize(t, s, a)
	}
	require.Len(t, assets, 4)
	require.Less(t, sum, first)
	t.Logf("the first page with all assets: %d bytes; the next: %d", sum, packedSize(t, s, "/services"))
	require.Less(t, packedSize(t, newSite(t, dashboardtest.Strangers()), "/services"), next, "also where every name is long")
}

func TestAssetsAreCachedForever(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	for _, a := range regexp.MustCompile(`"(/assets/[^"]+)"`).FindAllStringSubmatch(s.page("/"), -1) {
		r := s.get(a[1])
		require.Equal(t, http.StatusOK, r.StatusCode)
		require.Equal(t, "public, max-age=31536000, immutable", r.Header.Get("Cache-Control"))
		style := read(t, r)
		if strings.HasSuffix(a[1], ".css") {
			require.Regexp(t, `url\(/assets/[0-9a-f]{16}/inter\.woff2\)`, style)
		}
		changed := strings.Replace(a[1], "/assets/", "/assets/0", 1)
		gone := s.get(changed)
		require.Equal(t, http.StatusNotFound, gone.StatusCode)
		require.Equal(t, "no-store", gone.Header.Get("Cache-Control"))
	}
}

func TestSignedOut(t *testing.T) {
	s := newSite(t, dashboardtest.Shop(), as(nil))
	for path, want := range map[string]string{
		"/": "/sign-in", "/services?band=poor": "/sign-in?return=%2Fservices%3Fband%3Dpoor", "/keys": "/sign-in?return=%2Fkeys",
	} {
		r := s.get(path)
		require.Equal(t, http.StatusSeeOther, r.StatusCode, path)
		require.Equal(t, want, r.Header.Get("Location"), path)
		require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
	}
	require.Equal(t, http.StatusUnauthorized, s.get("/", "Assay-Live", "1").StatusCode)
	require.Equal(t, http.StatusSeeOther, s.post("/keys", url.Values{"name": {"x"}, "scope": {"read"}}).StatusCode)
	require.Len(t, s.APIKeys, 5)
	require.NotContains(t, read(t, s.get("/nothing")), `class="nav"`)
}

// TestIsolation requests existing resources with the session of another organization.
func TestIsolation(t *testing.T) {
	signedIn := dashboardtest.Session()
	signedIn.OrganizationID = "11111111-2222-4333-8444-555555555555"
	s := newSite(t, dashboardtest.Shop(), as(signedIn))
	for _, path := range []string{"/", "/services", "/services/" + s.Rows[0].ID, "/insights", "/insights/" + s.Found[0].ID, "/insights?service=" + s.Rows[0].ID} {
		r := s.get(path)
		require.Equal(t, http.StatusNotFound, r.StatusCode, path)
		require.NotContains(t, read(t, r), "checkout", path)
	}
	for _, form := range []string{"mute", "unmute", "summary"} {
		require.Equal(t, http.StatusNotFound, s.post("/insights/"+s.Found[0].ID+"/"+form, url.Values{"reason": {"mine"}}).StatusCode)
	}
	require.Equal(t, assay.InsightActive, s.Found[0].Status)
}

func TestErrorPages(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	for path, want := range map[string]int{
		"/nothing": 404, "/services/not-an-id": 404, "/services/7d0f6f1e-4c55-5b8e-9a3f-0c1d2e3f4a5b": 404, "/insights/7d0f6f1e-4c55-5b8e-9a3f-0c1d2e3f4a5b": 404,
		"/rules/RES-999": 404, "/keys/zzzzzz/revoke": 404, "/services?band=x": 400, "/services?sort=x": 400, "/services?signal=x": 400,
		"/insights?status=x": 400, "/insights?impact=x": 400, "/insights?signal=x": 400, "/insights?sort=x": 400, "/insights?from=x": 400, "/insights?to=99999-01-01": 400,
		"/insights?rule=x": 400, "/?period=2h": 400, "/insights?service=x": 404,
	} {
		r := s.get(path)
		page := read(t, r)
		require.Equal(t, want, r.StatusCode, path)
		require.Equal(t, "no-store", r.Header.Get("Cache-Control"), path)
		require.Empty(t, r.Header.Get("ETag"), path)
		wellFormed(t, path, page, elements(t, page))
	}
	r := s.post("/services", nil)
	require.Equal(t, http.StatusMethodNotAllowed, r.StatusCode)
	require.Equal(t, "GET, HEAD", r.Header.Get("Allow"))

	s.Err = assay.Errorf(assay.CodeUnavailable, "the store is unavailable: %s", "secret host")
	for _, path := range []string{"/", "/services", "/services/" + s.Rows[0].ID, "/insights", "/insights/" + s.Found[0].ID, "/rules", "/keys"} {
		r := s.get(path)
		require.Equal(t, http.StatusServiceUnavailable, r.StatusCode, path)
		require.Equal(t, "5", r.Header.Get("Retry-After"))
		page := read(t, r)
		require.NotContains(t, page, "secret host")
		require.Contains(t, page, "Try again")
	}
	s.Err = io.ErrUnexpectedEOF
	r = s.get("/services")
	require.Equal(t, http.StatusInternalServerError, r.StatusCode)
	require.NotContains(t, read(t, r), io.ErrUnexpectedEOF.Error())
}

// failing responds with an error.
type failing struct{}

func (failing) LogVolume(context.Context, string, assay.LogVolumePeriod) (*assay.LogVolume, error) {
	return nil, assay.Errorf(assay.CodeUpstream, "unavailable")
}

func (failing) Analyze(context.Context, string, int) (*assay.ServiceAnalytics, error) {
	return nil, assay.Errorf(assay.CodeUpstream, "unavailable")
}

func (failing) Summarize(context.Context, *assay.Insight) (*assay.InsightSummary, error) {
	return nil, assay.Errorf(assay.CodeUnavailable, "unavailable")
}

func TestPagesWithoutTheirParts(t *testing.T) {
	s := newSite(t, dashboardtest.Shop(), func(c *dashboard.Config) { c.LogVolume, c.Analyst, c.Summaries = failing{}, failing{}, failing{} })
	page := s.page("/")
	require.Contains(t, page, "The metrics store does not answer at the moment.")
	require.Contains(t, page, "Usage and cost cannot be read at the moment.")
	require.Contains(t, page, "What to fix first")
	s.page("/services/" + s.Rows[0].ID)
	r := s.post("/insights/"+s.Found[0].ID+"/summary", nil)
	require.Equal(t, http.StatusServiceUnavailable, r.StatusCode)
	require.Contains(t, read(t, r), "The summary could not be written now. Try again in a moment.")

	s = newSite(t, dashboardtest.Shop(), func(c *dashboard.Config) { c.LogVolume, c.Summaries = nil, nil })
	require.Contains(t, s.page("/"), "No metrics store is configured")
	require.Contains(t, s.page("/insights/"+s.Found[0].ID), "No language model is configured")
	require.Equal(t, http.StatusNotFound, s.post("/insights/"+s.Found[0].ID+"/summary", nil).StatusCode)
}

// TestOverview checks the totals of the overview page.
func TestOverview(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	page := s.page("/")
	require.Contains(t, page, `<a href="/insights?rule=LOG-003">Sensitive data in logs</a><span class="id">LOG-003</span>`)
	require.Contains(t, page, `<a href="/services?band=poor">`)
	require.Contains(t, page, `aria-label="Score of the organization. From `)
	require.Contains(t, page, `<a href="/?period=24h#volume" aria-current="true">24h</a>`)
	require.Contains(t, s.page("/?period=7d"), `<a href="/?period=7d#volume" aria-current="true">7d</a>`)
}

func TestServicesAreFound(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	names := func(path string) (found []string) {
		for _, m := range regexp.MustCompile(`<td class="main"><a href="/services/[^"]+"><bdi>([^<]+)`).FindAllStringSubmatch(s.page(path), -1) {
			found = append(found, m[1])
		}
		return found
	}
	require.Equal(t, []string{"cart"}, names("/services?q=CAR"))
	require.Equal(t, "warehouse-sync", names("/services?sort=score")[0])
	require.Equal(t, []string{"edge", "unknown_service"}, names("/services?environment=-"))
	require.Equal(t, []string{"payment"}, names("/services?environment=staging&q=pay"))
	require.Empty(t, names("/services?q=nothing"))
	require.Contains(t, s.page("/services?q=nothing"), "No service matches.")
	for range 3 {
		s.Rows = append(s.Rows, s.Rows...)
	}
	page := s.page("/services?sort=-last_seen&page=2")
	require.Contains(t, page, "51–100 of 288")
	require.Contains(t, page, `href="/services?sort=-last_seen" rel="prev"`)
	require.Contains(t, page, `href="/services?page=3&amp;sort=-last_seen" rel="next"`)
	require.Contains(t, s.page("/services?page=99999999"), "1–50 of 288")
	require.Contains(t, page, `aria-sort="descending"><a href="/services?sort=last_seen">`)
}

// TestSortFormHasAllOrders checks that every sort order of the column headings is also in the form, because
// phones hide the headings.
func TestSortFormHasAllOrders(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	for path, least := range map[string]int{"/services?sort=-score": 4, "/costs?sort=-avoidable": 6} {
		offered := map[string]bool{}
		all := elements(t, s.page(path))
		for _, e := range all {
			if e.Data == "option" && attribute(e.Parent, "name") == "sort" {
				offered[attribute(e, "value")] = true
			}
		}
		heads := 0
		for _, e := range all {
			if e.Data != "a" || e.Parent.Data != "th" {
				continue
			}
			u, err := url.Parse(attribute(e, "href"))
			require.NoError(t, err)
			require.True(t, offered[u.Query().Get("sort")], "%s: %s", path, u)
			heads++
		}
		require.GreaterOrEqual(t, heads, least, path)
	}
	require.Contains(t, s.page("/services?sort=-score"), `<option value="-score" selected>Highest score</option>`)
}

// TestServicesWithoutEnvironments reads the list while the choices of its filter cannot
// be read.
func TestServicesWithoutEnvironments(t *testing.T) {
	s := newSite(t, dashboardtest.Shop(), func(c *dashboard.Config) { c.ServiceLists = noEnvironments{c.ServiceLists} })
	require.Contains(t, s.page("/services?environment=staging"), "storefront")
	require.Contains(t, s.page("/services?environment=-"), "unknown_service")
	require.Equal(t, http.StatusServiceUnavailable, s.get("/services?environment=~0011223344556677").StatusCode, "a name that is only in the list")
}

type noEnvironments struct{ assay.ServiceLister }

func (noEnvironments) FindEnvironments(context.Context, string, int) ([]string, error) {
	return nil, assay.Errorf(assay.CodeUnavailable, "unavailable")
}

// TestCosts checks that every service is on a page of costs, with each signal named.
func TestCosts(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	names := func(path string) (found []string) {
		for _, m := range regexp.MustCompile(`<td class="main"><a href="/services/[^"]+"><bdi>([^<]+)`).FindAllStringSubmatch(s.page(path), -1) {
			found = append(found, m[1])
		}
		return found
	}
	all := len(s.Analytics.Services)
	require.Contains(t, s.page("/"), fmt.Sprintf(`<a href="/costs">10 of %d services</a>`, all))
	require.Len(t, names("/costs"), all)
	for path, less := range map[string]func(a, b assay.ServiceCost) int{
		"/costs":                 func(a, b assay.ServiceCost) int { return cmp.Compare(b.EstimatedCost, a.EstimatedCost) },
		"/costs?sort=cost":       func(a, b assay.ServiceCost) int { return cmp.Compare(a.EstimatedCost, b.EstimatedCost) },
		"/costs?sort=-avoidable": func(a, b assay.ServiceCost) int { return cmp.Compare(b.AvoidableCost, a.AvoidableCost) },
		"/costs?sort=-bytes":     func(a, b assay.ServiceCost) int { return cmp.Compare(b.Bytes(), a.Bytes()) },
		"/costs?sort=-metrics":   func(a, b assay.ServiceCost) int { return cmp.Compare(b.Metrics.Bytes, a.Metrics.Bytes) },
		"/costs?sort=-name":      func(a, b assay.ServiceCost) int { return cmp.Compare(b.Name, a.Name) },
	} {
		sorted := slices.Clone(s.Analytics.Services)
		slices.SortStableFunc(sorted, less)
		require.Equal(t, sorted[0].Name, names(path)[0], path)
		require.Equal(t, sorted[all-1].Name, names(path)[all-1], path)
	}
	require.Equal(t, []string{"cart"}, names("/costs?q=CAR&sort=-bytes"))
	require.Contains(t, s.page("/costs?q=nothing"), "No service matches.")

	// Every cell has a label for screens that hide the column headings.
	c := s.Analytics.Services[slices.IndexFunc(s.Analytics.Services, func(c assay.ServiceCost) bool { return c.Name == "media-transcoder" })]
	require.Positive(t, c.TracesCost.Avoidable)
	var cells []string
	for _, e := range elements(t, s.page("/costs?q=media-transcoder")) {
		if label := attribute(e, "data-label"); label != "" {
			cells = append(cells, label+" "+textOf(e))
		}
	}
	for i, of := range []struct {
		signal string
		cost   assay.SignalCost
	}{{"Traces", c.TracesCost}, {"Metrics", c.MetricsCost}, {"Logs", c.LogsCost}} {
		require.Regexp(t, fmt.Sprintf(`^%s [0-9.]+ [kMGT]?B\$%.2f$`, of.signal, of.cost.Estimated), cells[i])
	}
	require.Contains(t, cells[5], fmt.Sprintf("$%.2f of traces", c.TracesCost.Avoidable))

	for range 3 {
		s.Analytics.Services = append(s.Analytics.Services, s.Analytics.Services...)
	}
	s = newSite(t, s.World)
	require.Contains(t, s.page("/costs?page=2&sort=-bytes"), fmt.Sprintf("51–100 of %d", 8*all))
	require.Contains(t, s.page("/costs?page=2&sort=-bytes"), `href="/costs?page=3&amp;sort=-bytes" rel="next"`)
	for path, last := range map[string]string{
		"/costs?page=9999": "/costs?page=6", "/services?page=9999&sort=score": "/services?sort=score", "/insights?page=9": "/insights?page=2",
	} {
		r := s.get(path)
		require.Equal(t, http.StatusSeeOther, r.StatusCode, path)
		require.Equal(t, last, r.Header.Get("Location"), "the last page")
	}
	require.Equal(t, http.StatusBadRequest, s.get("/costs?sort=x").StatusCode)
	failing := newSite(t, dashboardtest.Shop(), func(c *dashboard.Config) { c.Analyst = failing{} })
	require.Contains(t, failing.page("/costs"), "Usage and cost cannot be read at the moment.")
}

// textOf returns the text in an element.
func textOf(e *html.Node) string {
	var text strings.Builder
	for n := range e.Descendants() {
		if n.Type == html.TextNode {
			text.WriteString(n.Data)
		}
	}
	return text.String()
}

func TestService(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	page := s.page("/services/" + s.service("courier").ID)
	require.Contains(t, page, fmt.Sprintf("10 passed, 6 failed, %d not evaluated", catalog.Scored-10-6))
	require.Equal(t, catalog.Scored, strings.Count(page, `<td class="main"><a href="/rules/`))
	require.Contains(t, page, "began to fail")
	require.Contains(t, page, `class="mark fail"`)
	require.NotContains(t, page, "Rules by version", "it has one")
	versions := s.page("/services/" + s.service("checkout").ID)
	require.Equal(t, 1, strings.Count(versions, `<span class="tag">this page</span>`))
	require.Contains(t, versions, "4.9.7")
}

// TestServiceReportsOmittedRows shows a service with more changes and versions than a page lists.
func TestServiceReportsOmittedRows(t *testing.T) {
	s := newSite(t, dashboardtest.Busy())
	path := "/services/" + s.Rows[0].ID // the oldest version
	page := s.page(path)

	for _, kind := range []string{"fail", "pass", "turn"} {
		require.Contains(t, page, `<path class="mark `+kind+`"`, "a shape of its own")
	}
	require.Contains(t, page, "MET-002 is evaluated and passes", "from not evaluated to passed")
	require.Contains(t, page, "MET-002 is not evaluated any more", "from failed to not evaluated")
	require.Contains(t, page, "a rule began to fail")
	require.Equal(t, 12, strings.Count(page, " → "))
	require.Contains(t, page, "1–12 of 35")
	require.Contains(t, page, `href="`+path+`?page=2#changes" rel="next"`)
	last := s.page(path + "?page=3")
	require.Contains(t, last, "25–35 of 35")
	require.Equal(t, path+"?page=3#changes", s.get(path+"?page=9").Header.Get("Location"))
	require.Less(t, packedSize(t, s, path), 30<<10)

	require.Contains(t, page, `10 of 14, <a href="/services?environment=production&amp;q=relay&amp;sort=-last_seen">all of them</a>`)
	require.Equal(t, 1, strings.Count(page, `<b><bdi>1.0.0</bdi></b> <span class="tag">this page</span>`), "however old it is")

	// The current version is compared with the latest ones or the selected ones.
	heads := func(page string) (found []string) {
		for _, e := range elements(t, page) {
			if e.Data == "th" && attribute(e.Parent.Parent.Parent, "class") == "compare" && !slices.Contains(found, textOf(e)) {
				found = append(found, textOf(e))
			}
		}
		return found
	}
	require.Equal(t, []string{"Rule", "1.0.0", "1.13.0", "1.12.0", "1.11.0"}, heads(page))
	chosen := s.page(path + "?with=" + s.Rows[9].ID + "&with=" + s.Rows[7].ID)
	require.Equal(t, []string{"Rule", "1.0.0", "1.9.0", "1.7.0"}, heads(chosen))
	require.Equal(t, heads(chosen), heads(s.page(path+"?with="+s.Rows[9].ID+","+s.Rows[7].ID)))
	require.Equal(t, heads(chosen)[:3], heads(s.page(path+"?with="+s.Rows[9].ID+"&with=another")))
	require.Equal(t, 2, strings.Count(chosen, `" checked aria-label="Compare with`))
	i := strings.Index(chosen, "Rules by version")
	require.Contains(t, chosen[i:], fmt.Sprintf("2 of %d differ", catalog.Scored))
	require.Regexp(t, `<td data-label="1\.0\.0"><span class="state passed">.*Passed</span><span class="sub">0 of [0-9,]+</span></td><td data-label="1\.9\.0">`, chosen[i:])
	require.Regexp(t, `<td data-label="1\.7\.0"><span class="state failed">.*Failed</span><span class="sub">[0-9,]+ of [0-9,]+ \([0-9.]+%\)</span></td>`, chosen[i:])
	require.Contains(t, chosen[i:], fmt.Sprintf("%d rules have the same result in all versions", catalog.Scored-2))
}

func TestInsightsAreFiltered(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	count := func(path string) string {
		return regexp.MustCompile(`[0-9–]+ of [0-9,]+</span>`).FindString(s.page(path))
	}
	require.Equal(t, "1–50 of 67</span>", count("/insights"))
	require.Equal(t, "1–11 of 11</span>", count("/insights?impact=critical"))
	require.Equal(t, "1–4 of 4</span>", count("/insights?rule=LOG-003"))
	require.Equal(t, "1–6 of 6</span>", count("/insights?service="+s.service("courier").ID))
	require.Equal(t, "", count("/insights?status=muted"))
	require.NoError(t, s.MuteInsight(t.Context(), s.Found[0].ID, "known"))
	require.Equal(t, "1–1 of 1</span>", count("/insights?status=muted"))
	require.Equal(t, "1–50 of 67</span>", count("/insights?status=all"))
	require.Equal(t, "1–50 of 67</span>", count("/insights?status=muted&status=active"))
	require.Equal(t, "1–1 of 1</span>", count("/insights?status=muted,archived"))
	require.Equal(t, "1–44 of 44</span>", count("/insights?impact=critical&impact=important"))
	require.Equal(t, count("/insights?impact=critical&impact=important"), count("/insights?impact=Critical,Important"), "as in the API")
	require.Equal(t, "", count("/insights?from=2026-11-21"))
	require.Equal(t, "1–50 of 66</span>", count("/insights?to=2026-11-20"))
}

// TestInsightsFilteredByServiceName filters by a name that several services may have.
func TestInsightsFilteredByServiceName(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	courier, one := s.service("courier").ID, s.service("accounts").ID
	page := s.page("/insights?q=courier&rule=&impact=critical&impact=important")
	require.Contains(t, page, `Only of <a href="/services/`+courier)
	require.Contains(t, page, `<input type="hidden" name="service" value="`+courier+`">`)
	require.Contains(t, s.page("/insights?q=COURI"), `Only of <a href="/services/`+courier, "the only one")

	page = s.page("/insights?q=accounts&status=all")
	require.Contains(t, page, "Which service?")
	require.Contains(t, page, `<a href="/insights?service=`+one+`&amp;status=all">`)
	require.NotContains(t, page, `<td class="main"><a href="/insights/`)
	page = s.page("/insights?service=" + one + "&status=all")
	require.Contains(t, page, `name="q" value="accounts"`)
	require.Contains(t, page, `Only of <a href="/services/`+one)
	require.Contains(t, s.page("/insights?q=accounts&service="+one), `Only of <a href="/services/`+one, "chosen before")
	require.Contains(t, s.page("/insights?q=courier&service="+one), `Only of <a href="/services/`+courier, "written after")
	require.NotContains(t, s.page("/insights?q=&service="+one), "Only of", "removed")
	require.Contains(t, s.page("/insights?q=nobody"), "No service has this name.")

	strangers := newSite(t, dashboardtest.Strangers())
	for n, r := range strangers.Rows { // the name in the form finds the service
		for _, e := range elements(t, strangers.page("/insights?service="+r.ID)) {
			if attribute(e, "id") == "q" {
				again := strangers.page("/insights?" + url.Values{"q": {attribute(e, "value")}, "service": {r.ID}}.Encode())
				require.Contains(t, again, `Only of <a href="/services/`+r.ID, "service %d", n)
			}
		}
	}
}

// TestInsightDateMatchesOrder checks that a list shows the date by which it is sorted.
func TestInsightDateMatchesOrder(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	for path, want := range map[string]struct {
		label string
		date  func(*assay.Insight) time.Time
	}{
		"/insights":                   {"Detected", func(i *assay.Insight) time.Time { return i.DetectedAt }},
		"/insights?sort=-detected_ts": {"Detected", func(i *assay.Insight) time.Time { return i.DetectedAt }},
		"/insights?sort=created_at":   {"Created", func(i *assay.Insight) time.Time { return i.CreatedAt }},
		"/insights?to=2026-11-19":     {"Created", func(i *assay.Insight) time.Time { return i.CreatedAt }},
		"/insights?sort=-updated_at":  {"Changed", func(i *assay.Insight) time.Time { return i.UpdatedAt }},
	} {
		page := s.page(path)
		require.Contains(t, page, `<th class="end">`+want.label+`</th>`, path)
		id := regexp.MustCompile(`<td class="main"><a href="/insights/([^"]+)"`).FindStringSubmatch(page)[1]
		first := s.Found[slices.IndexFunc(s.Found, func(i *assay.Insight) bool { return i.ID == id })]
		shown := regexp.MustCompile(`data-label="` + want.label + `"><time datetime="([^"]+)"`).FindStringSubmatch(page)[1]
		require.Equal(t, want.date(first).Format(time.RFC3339), shown, path)
	}
	require.Equal(t, http.StatusBadRequest, s.get("/insights?from=2026-11-20&to=2026-11-19").StatusCode)
}

func TestInsightIsMutedAndBack(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, dashboardtest.Shop(), func(c *dashboard.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	i := s.insight("sensitive_log_data")
	path := "/insights/" + i.ID
	page := s.page(path)
	for _, part := range []string{"What is wrong", "Why it costs", "customer.card", i.TraceID, "blocked_key_patterns", "slog.InfoContext", "Write a summary", `data-copy="` + i.TraceID} {
		require.Contains(t, page, part)
	}
	r := s.post(path+"/mute", url.Values{"reason": {" a <b>test</b> account "}})
	require.Equal(t, http.StatusSeeOther, r.StatusCode)
	require.Equal(t, path, r.Header.Get("Location"))
	require.Equal(t, "a <b>test</b> account", s.insight("sensitive_log_data").MuteReason)
	require.Contains(t, s.page(path), "a &lt;b&gt;test&lt;/b&gt; account")
	require.Equal(t, http.StatusSeeOther, s.post(path+"/unmute", nil).StatusCode)
	require.Contains(t, s.page(path), "Mute this insight")
	for _, done := range []string{"muted", "unmuted"} {
		require.Contains(t, log.String(), `level=INFO msg="an insight was `+done+`" organization_id=`+dashboardtest.OrganizationID+` insight_id=`+i.ID+` by=key:Ab3dE6`)
	}
	require.NotContains(t, log.String(), "account", "a reason is free text")
	require.Equal(t, http.StatusBadRequest, s.post(path+"/mute", url.Values{"reason": {strings.Repeat("x", 20_000)}}).StatusCode)
}

func TestSummary(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	path := "/insights/" + s.insight("sensitive_log_data").ID
	r := s.post(path+"/summary", nil)
	require.Equal(t, http.StatusSeeOther, r.StatusCode)
	require.Equal(t, path+"#summary", r.Header.Get("Location"))
	page := s.page(path)
	require.Contains(t, page, "<strong>accounts</strong> writes personal data")
	require.Contains(t, page, "by small-model-1")
	s.Summary.Content = "<script>alert(1)</script>\n\n[x](javascript:alert(1)) ![i](https://elsewhere.example/i.png)\n\n# Heading\n"
	page = s.page(path)
	require.NotContains(t, page, "javascript:")
	require.NotContains(t, page, "<img")
	require.NotContains(t, page, "<script>")
	wellFormed(t, path, page, elements(t, page))
}

func TestFirstRunBecomesTheOverview(t *testing.T) {
	empty := newSite(t, dashboardtest.Empty())
	page := empty.page("/")
	require.Contains(t, page, "Send the first data")
	require.Contains(t, page, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318")
	require.Contains(t, page, `data-live="2"`)
	for _, path := range []string{"/services", "/insights", "/rules", "/keys"} {
		empty.page(path)
	}
	// Without a score, no page claims that rules passed.
	for _, c := range []struct {
		change func(*assay.Organization)
		path   string
		want   string
	}{
		{func(*assay.Organization) {}, "/insights", "No service has sent telemetry yet."},
		{func(o *assay.Organization) { o.ServicesCount = 1 }, "/insights", "No service has a score yet."},
		{func(*assay.Organization) {}, "/", "No service has a score yet."},
		{func(o *assay.Organization) { o.Score = new(float64) }, "/insights", "every rule that was evaluated passed"},
		{func(*assay.Organization) {}, "/", "Every rule that was evaluated passed."},
	} {
		c.change(&empty.Organization)
		page := empty.page(c.path)
		require.Contains(t, page, c.want, c.path)
		require.Equal(t, empty.Organization.Score != nil, strings.Contains(page, "ule that was evaluated passed"), c.path)
	}
	*empty.World = *dashboardtest.Shop()
	require.Contains(t, read(t, empty.get("/", "Assay-Live", "1")), "What to fix first")
}

func TestThemeIsRemembered(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	require.NotContains(t, s.page("/"), "data-theme")
	r := s.post("/theme", url.Values{"theme": {"dark"}, "return": {"/services?q=a"}})
	require.Equal(t, "/services?q=a", r.Header.Get("Location"))
	cookie := r.Cookies()[0]
	require.Equal(t, http.SameSiteLaxMode, cookie.SameSite)
	require.Contains(t, read(t, s.get("/", "Cookie", cookie.String())), `<html lang="en" data-theme="dark">`)
	require.Negative(t, s.post("/theme", url.Values{"theme": {""}}).Cookies()[0].MaxAge)
	require.NotContains(t, read(t, s.get("/", "Cookie", "assay_theme=%22x")), "data-theme")
	for _, elsewhere := range []string{"https://elsewhere.example", "//elsewhere.example", `/\elsewhere.example`, "elsewhere", "", "/a\r\nb"} {
		require.Equal(t, "/", s.post("/theme", url.Values{"return": {elsewhere}}).Header.Get("Location"), elsewhere)
	}
}

func TestSignInPage(t *testing.T) {
	s := newSite(t, dashboardtest.Shop(), as(nil))
	w := httptest.NewRecorder()
	s.handler.SignInPage(w, httptest.NewRequest(http.MethodGet, "/sign-in", nil), http.StatusUnauthorized,
		session.SignInPage{Return: "/services?q=a&b=c", Provider: true, Failure: "This <key> is not valid."})
	r := w.Result()
	require.Equal(t, http.StatusUnauthorized, r.StatusCode)
	require.NotEmpty(t, r.Header.Get("Content-Security-Policy"))
	page := read(t, r)
	require.Contains(t, page, "This &lt;key&gt; is not valid.")
	require.Contains(t, page, `href="/sign-in/provider?return=%2fservices%3fq%3da%26b%3dc"`)
	require.Contains(t, page, `<input type="hidden" name="return" value="/services?q=a&amp;b=c">`)
	require.Contains(t, page, "<code>bootstrap-key</code>", "where a server without a terminal puts the first key")
	wellFormed(t, "/sign-in", page, elements(t, page))

	w = httptest.NewRecorder()
	s.handler.Fail(w, httptest.NewRequest(http.MethodPost, "/keys", nil), http.StatusForbidden, "The request came from another site.")
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), "The request came from another site.")
}

func TestHead(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	r := s.do(httptest.NewRequest(http.MethodHead, "/services", nil))
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.NotEmpty(t, r.Header.Get("Content-Length"))
	require.Empty(t, read(t, r))
	require.False(t, bytes.Contains([]byte(r.Header.Get("Content-Encoding")), []byte("gzip")))
}

// TestTemplatesTakeTurns: a page is made while its organization holds a slot of the CPUs. An error page does not wait.
func TestTemplatesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cpu := fair.NewSemaphore(2, 1)
		s := newSite(t, dashboardtest.Shop(), func(c *dashboard.Config) { c.CPU = cpu })
		organization := dashboardtest.Session().OrganizationID
		require.NoError(t, cpu.Acquire(t.Context(), organization))
		require.Equal(t, http.StatusServiceUnavailable, s.get("/rules").StatusCode)
		const beyond = "/costs?sort=name&page=1000" // sorted before it is known that there is no such page
		require.Equal(t, http.StatusServiceUnavailable, s.get(beyond).StatusCode)
		cpu.Release(organization)
		for range 3 {
			s.page("/rules")
			s.page("/costs?sort=name")
			require.Equal(t, http.StatusSeeOther, s.get(beyond).StatusCode)
		}
	})
}
