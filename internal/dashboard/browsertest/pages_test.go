// SPDX-License-Identifier: Apache-2.0

package browsertest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/dashboard"
	"assay/internal/dashboard/browsertest"
	"assay/internal/dashboard/dashboardtest"
	"assay/internal/session"
)

const root = "../../.."

func start(t *testing.T) (*browsertest.Tab, string) {
	t.Helper()
	axe, err := browsertest.Axe(root)
	require.NoError(t, err)
	tab, err := browser.NewTab()
	require.NoError(t, err)
	t.Cleanup(tab.Close)
	return tab, axe
}

// serve serves the pages of a world, including the sign-in page.
func serve(t *testing.T, w *dashboardtest.World, before func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	h, err := dashboard.New(dashboardtest.Config(w, dashboardtest.Session()))
	require.NoError(t, err)
	t.Cleanup(h.Close)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case before != nil && before(w, r):
		case r.URL.Path == session.SignInPath:
			h.SignInPage(w, r, http.StatusOK, session.SignInPage{Return: "/", Provider: true, Failure: "This API key is not valid."})
		default:
			h.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestEveryPageInBothThemes checks every page with all axe-core rules, light on a wide screen and dark on a
// phone. It checks the console for errors and that no page is wider than the window.
func TestEveryPageInBothThemes(t *testing.T) {
	t.Parallel()
	shop, muted := dashboardtest.Shop(), dashboardtest.Shop()
	require.NoError(t, muted.MuteInsight(t.Context(), muted.Found[0].ID, "The addresses are those of a test account."))
	_, err := muted.Summarize(t.Context(), muted.Found[0])
	require.NoError(t, err)
	strangers, busy := dashboardtest.Strangers(), dashboardtest.Busy()
	unavailable := dashboardtest.Shop()
	unavailable.Err = assay.Errorf(assay.CodeUnavailable, "unavailable")
	type site struct {
		url   string
		paths []string
		fails bool // responds with an error, which the console reports
	}
	var sites []site
	for _, s := range []struct {
		world *dashboardtest.World
		paths []string
		fails bool
	}{
		{shop, []string{"/", "/services?q=c&sort=score", "/services?q=nothing", "/services/" + shop.Rows[8].ID, "/insights?status=all&rule=MET-002", "/insights/" + shop.Found[0].ID, "/costs?q=c&sort=-avoidable", "/rules", "/rules/SPA-002", "/keys", "/keys/q7Lm2P/revoke", "/webhooks", "/webhooks/" + dashboardtest.WebhookID, "/webhooks/" + dashboardtest.DisabledWebhookID + "/delete", "/sign-in", "/repositories", "/repositories/connect", "/repositories/" + dashboardtest.RepositoryID, "/repositories/" + dashboardtest.RepositoryID + "/findings/" + dashboardtest.FindingID, "/findings", "/runs", "/runs/" + dashboardtest.RunID, "/runs/" + dashboardtest.FixID}, false},
		{muted, []string{"/insights/" + muted.Found[0].ID}, false},
		{busy, []string{"/services/" + busy.Rows[0].ID, "/insights?q=relay"}, false},
		{dashboardtest.Empty(), []string{"/", "/services"}, false},
		{strangers, []string{"/services", "/services/" + strangers.Rows[16].ID, "/insights/" + strangers.Found[1].ID}, false},
		{unavailable, []string{"/"}, true},
	} {
		sites = append(sites, site{serve(t, s.world, nil), s.paths, s.fails})
	}
	for _, look := range []struct {
		scheme        string
		width, height int64
		phone         bool
	}{{"light", 1440, 900, false}, {"dark", 360, 740, true}} {
		t.Run(look.scheme, func(t *testing.T) {
			t.Parallel()
			tab, axe := start(t)
			require.NoError(t, tab.Viewport(look.width, look.height, look.phone))
			require.NoError(t, tab.Scheme(look.scheme))
			for _, s := range sites {
				for _, path := range s.paths {
					require.NoError(t, tab.Open(s.url+path))
					found, err := tab.Violations(axe, browsertest.AllRules)
					require.NoError(t, err)
					assert.Empty(t, found, path)
					wide, err := tab.Overflowing()
					require.NoError(t, err)
					assert.Empty(t, wide, "%s: reaches beyond the window", path)
					if problems := tab.Problems(); !s.fails {
						assert.Empty(t, problems, path)
					}
				}
			}
		})
	}
}

// TestPageUpdatesItself updates a page from no data to data, during an outage of the server, and until the
// session ends.
func TestPageUpdatesItself(t *testing.T) {
	t.Parallel() // mostly idle
	tab, _ := start(t)
	w := dashboardtest.Empty()
	var status atomic.Int64
	url := serve(t, w, func(rw http.ResponseWriter, r *http.Request) bool {
		n := int(status.Load())
		if n == 0 || strings.HasPrefix(r.URL.Path, "/assets/") {
			return false
		}
		rw.WriteHeader(n)
		return true
	})
	require.NoError(t, tab.Open(url+"/"))
	require.NoError(t, tab.Await(`document.body.innerText.includes('Waiting for data') && !document.getElementById('pulse').hidden`))
	status.Store(http.StatusServiceUnavailable)
	require.NoError(t, tab.Await(`document.getElementById('notice').textContent.startsWith('Not updated since')`))
	require.NoError(t, tab.Await(`document.getElementById('pulse').textContent === 'Stale'`))
	*w = *dashboardtest.Shop() // no request is reading it
	status.Store(0)
	require.NoError(t, tab.Await(`document.body.innerText.includes('What to fix first')`))
	require.NoError(t, tab.Await(`document.getElementById('notice').textContent === '' && document.getElementById('pulse').textContent === 'Live'`))

	// Open elements and the focus are preserved while the page around them changes.
	_, err := browsertest.Evaluate[bool](tab, `(() => { document.querySelector('details.data').open = true; document.querySelector('.bands a').focus(); return true })()`)
	require.NoError(t, err)
	require.NoError(t, w.MuteInsight(t.Context(), w.Found[0].ID, "known"))
	require.NoError(t, tab.Await(`document.querySelector('.panel.cards td.num').textContent !== '' && document.querySelector('details.data').open`))
	kept, err := browsertest.Evaluate[bool](tab, `document.activeElement.matches('.bands a')`)
	require.NoError(t, err)
	require.True(t, kept)

	status.Store(http.StatusUnauthorized)
	require.NoError(t, tab.Await(`!document.body?.innerText.includes('What to fix first')`), "the figures leave the screen")
}

// TestWorksWithoutAScript uses the main functions with JavaScript disabled.
func TestWorksWithoutAScript(t *testing.T) {
	tab, _ := start(t)
	w := dashboardtest.Shop()
	url := serve(t, w, nil)
	require.NoError(t, tab.Scripting(false))
	require.NoError(t, tab.Open(url+"/insights/"+w.Found[0].ID))
	require.NoError(t, tab.Type("#reason", "known"))
	require.NoError(t, tab.Click("form[action$=mute] button"))
	require.NoError(t, tab.Seen("form[action$=unmute] button"))
	require.NoError(t, tab.Click(".tabs label:nth-child(2)"))
	require.NoError(t, tab.Seen(".tab:nth-of-type(3) pre"))
	require.NoError(t, tab.Open(url+"/"))
	require.NoError(t, tab.Seen(".chart .line"))
	require.NoError(t, tab.Click(".menu summary"))
	require.NoError(t, tab.Click(".segments button[value=dark]"))
	require.NoError(t, tab.Seen(`html[data-theme="dark"] .chart`))
}

// TestChartsAreReadOut moves over a chart.
func TestChartsAreReadOut(t *testing.T) {
	tab, _ := start(t)
	url := serve(t, dashboardtest.Shop(), nil)
	require.NoError(t, tab.Viewport(1440, 2400, false))
	require.NoError(t, tab.Open(url+"/"))
	rest, err := tab.Text(".volume")
	require.NoError(t, err)
	require.Contains(t, rest, "ERROR")
	_, err = browsertest.Evaluate[bool](tab, `(() => {
  const chart = document.querySelector('.chart.tall'), box = chart.getBoundingClientRect();
  chart.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + 9}));
  return true;
})()`)
	require.NoError(t, err)
	require.NoError(t, tab.Await(`/Nov \d+, \d\d:\d\d .* INFO [\d,]+ .* total [\d,]+/.test([...document.querySelectorAll('.readout')].at(-1).textContent)`))
	require.NoError(t, tab.Await(`document.querySelector('.chart.tall .guide.on') !== null`))
	require.Empty(t, tab.Problems())
}

// TestNothingJumps sums the layout shifts while pages load and while a page updates itself.
func TestNothingJumps(t *testing.T) {
	tab, _ := start(t)
	w := dashboardtest.Shop()
	url := serve(t, w, nil)
	moved := func(before string) float64 {
		t.Helper()
		sum, err := browsertest.Evaluate[float64](tab, `new Promise((done) => {
  let sum = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((e) => { sum += e.value; })).observe({type: 'layout-shift', buffered: true});
  `+before+`
  fetch(location.href, {headers: {'Assay-Live': '1'}}).then((r) => r.text()).then((text) => {
    change(document.getElementById('page'), new DOMParser().parseFromString(text, 'text/html').getElementById('page'));
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(sum), 50)));
  });
})`)
		require.NoError(t, err)
		return sum
	}
	for _, path := range []string{"/", "/services", "/services/" + w.Rows[8].ID, "/insights/" + w.Found[0].ID} {
		require.NoError(t, tab.Open(url+path))
		require.Zero(t, moved(""), path)
	}
	require.Positive(t, moved(`document.body.insertAdjacentHTML('afterbegin', '<h1>a</h1><h1>b</h1><h1>c</h1><h1>d</h1>');`), "layout shifts are measured")
}

// TestTabOnAPhone checks that only visible elements receive the focus.
func TestTabOnAPhone(t *testing.T) {
	tab, _ := start(t)
	url := serve(t, dashboardtest.Shop(), nil)
	require.NoError(t, tab.Viewport(360, 740, true))
	for _, path := range []string{"/", "/services", "/costs", "/insights?status=all"} {
		require.NoError(t, tab.Open(url+path))
		unseen, err := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('a, button, input, select, textarea, summary, [tabindex="0"]')].filter((e) => {
  if (e.matches('.skip, .tabs input')) return false;
  e.focus();
  if (document.activeElement !== e) return false;
  const clip = e.closest('thead');
  return clip !== null && getComputedStyle(clip).position === 'absolute' || e.getBoundingClientRect().width < 2;
}).map((e) => e.outerHTML.slice(0, 100))`)
		require.NoError(t, err)
		require.Empty(t, unseen, path)
	}
	whole, err := browsertest.Evaluate[bool](tab, `(() => { const nav = document.querySelector('.nav'); return nav.scrollWidth <= nav.clientWidth })()`)
	require.NoError(t, err)
	require.True(t, whole, "every section is seen")
	require.NoError(t, tab.Open(url+"/services"))
	_, err = browsertest.Evaluate[bool](tab, `(() => { document.getElementById('sort').value = 'score'; return true })()`)
	require.NoError(t, err)
	require.NoError(t, tab.Click(".filters button"))
	require.NoError(t, tab.Await(`location.search.includes('sort=score') && document.querySelector('td.main a').textContent === 'warehouse-sync'`))
}

// TestKeyboard moves from the top of a page to its content and through the menu with the keyboard.
func TestKeyboard(t *testing.T) {
	tab, _ := start(t)
	url := serve(t, dashboardtest.Shop(), nil)
	require.NoError(t, tab.Open(url+"/services"))
	require.NoError(t, tab.Press("\t"))
	require.NoError(t, tab.Await(`document.activeElement.matches('.skip') && document.activeElement.getBoundingClientRect().top >= 0`))
	require.NoError(t, tab.Press("\r"))
	require.NoError(t, tab.Await(`document.activeElement.id === 'main'`))
	require.NoError(t, tab.Press("\t"))
	require.NoError(t, tab.Await(`document.activeElement.id === 'q' && getComputedStyle(document.activeElement).outlineStyle !== 'none'`))
	require.NoError(t, tab.Press("courier\r"))
	require.NoError(t, tab.Await(`location.search.includes('q=courier') && document.querySelectorAll('tbody tr').length === 1`))
	_, err := browsertest.Evaluate[bool](tab, `(() => { document.querySelector('.menu summary').focus(); return true })()`)
	require.NoError(t, err)
	require.NoError(t, tab.Press("\r"))
	require.NoError(t, tab.Await(`document.querySelector('.menu').open`))
	require.NoError(t, tab.Press("\u001b"))
	require.NoError(t, tab.Await(`!document.querySelector('.menu').open && document.activeElement.matches('.menu summary')`))
	require.Empty(t, tab.Problems())
}
