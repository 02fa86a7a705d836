// SPDX-License-Identifier: Apache-2.0

package browsertest_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/dashboard/browsertest"
	"assay/internal/dashboard/dashboardtest"
	"assay/internal/session"
)

// run evaluates a script without a result.
func run(t *testing.T, tab *browsertest.Tab, script string) {
	t.Helper()
	_, err := browsertest.Evaluate[bool](tab, "(() => { "+script+"; return true })()")
	require.NoError(t, err)
}

// TestUpdatesArePaused pauses updates with the keyboard, checks that they are paused on the next page of the
// tab, and resumes them.
func TestUpdatesArePaused(t *testing.T) {
	tab, _ := start(t)
	w := dashboardtest.Empty()
	var asked atomic.Int64
	url := serve(t, w, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get(session.BackgroundHeader) != "" {
			asked.Add(1)
		}
		return false
	})
	require.NoError(t, tab.Open(url+"/"))
	require.NoError(t, tab.Await(`!document.getElementById('pulse').hidden`))
	run(t, tab, `document.getElementById('pulse').focus()`)
	require.NoError(t, tab.Press(" "))
	require.NoError(t, tab.Await(`document.getElementById('pulse').matches('[aria-pressed=true]') && document.getElementById('pulse').textContent === 'Paused'`))
	require.NoError(t, tab.Open(url+"/")) // after the end of the update that was in flight
	require.NoError(t, tab.Await(`document.getElementById('pulse').textContent === 'Paused'`))
	*w = *dashboardtest.Shop()
	before := asked.Load()
	run(t, tab, `document.dispatchEvent(new Event('visibilitychange'))`) // triggers an update
	kept, err := browsertest.Evaluate[bool](tab, `update().then(() => document.body.innerText.includes('Waiting for data'))`)
	require.NoError(t, err)
	require.True(t, kept)
	require.Equal(t, before, asked.Load())
	require.NoError(t, tab.Click("#pulse"))
	require.NoError(t, tab.Await(`document.body.innerText.includes('What to fix first') && document.querySelector('#pulse[aria-pressed=false]')?.textContent === 'Live'`))
	require.Empty(t, tab.Problems())
}

// TestRowsMove changes the order of a list that has a focused element, an open element and typed text.
func TestRowsMove(t *testing.T) {
	tab, _ := start(t)
	url := serve(t, dashboardtest.Shop(), nil)
	require.NoError(t, tab.Open(url+"/rules"))
	run(t, tab, `
const list = (rows) => {
  const page = document.createElement('div');
  page.innerHTML = '<ul>' + rows.map((r) => '<li data-key="' + r + '"><a href="/' + r + '">' + r + '</a> <details><summary>more</summary>' + r + '</details><input></li>').join('\n') + '</ul><p id="below">x</p><!-- y -->';
  return page;
};
window.list = list;
window.texts = () => [...document.querySelectorAll('#page li > a')].map((a) => a.textContent + a.getAttribute('href')).join(' ');
document.getElementById('page').replaceChildren(...list(['a', 'b', 'c', 'd']).childNodes);
window.row = document.querySelector('#page [data-key=c]');
row.querySelector('a').focus();
row.querySelector('details').open = true;
row.querySelector('input').value = 'typed'`)
	for _, order := range []string{"c,d,b,a", "d,a,b,c", "x,c", "c", "a,b,c,d", "d,c,c,b", "c,e"} {
		run(t, tab, `change(document.getElementById('page'), list('`+order+`'.split(',')))`)
		got, err := browsertest.Evaluate[string](tab, `texts()`)
		require.NoError(t, err)
		want := ""
		for r := range strings.SplitSeq(order, ",") {
			want += " " + r + "/" + r
		}
		require.Equal(t, want[1:], got)
		kept, err := browsertest.Evaluate[bool](tab, `document.activeElement === row.querySelector('a') && row.isConnected && row.querySelector('details').open &&
  row.querySelector('input').value === 'typed' && document.querySelectorAll('#page details[open]').length === 1`)
		require.NoError(t, err)
		require.True(t, kept, order)
	}
	require.Empty(t, tab.Problems())
}

// TestRemovedSubjectIsReported updates a page whose subject was removed.
func TestRemovedSubjectIsReported(t *testing.T) {
	tab, _ := start(t)
	w := dashboardtest.Shop()
	url := serve(t, w, nil)
	require.NoError(t, tab.Open(url+"/services/"+w.Rows[0].ID))
	w.Rows = nil
	run(t, tab, `update()`)
	require.NoError(t, tab.Await(`document.getElementById('notice').textContent === 'What this page shows is not there any more.' && !main.dataset.live`))
}

// TestCopyingKeepsNotices copies while the page is stale.
func TestCopyingKeepsNotices(t *testing.T) {
	tab, _ := start(t)
	w := dashboardtest.Shop()
	var unavailable atomic.Bool
	url := serve(t, w, func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get(session.BackgroundHeader) != "" && unavailable.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	require.NoError(t, tab.AllowClipboard(url))
	require.NoError(t, tab.Open(url+"/insights/"+w.Found[0].ID))
	shown, err := browsertest.Evaluate[bool](tab, `getComputedStyle(document.getElementById('notice')).display !== 'none'`)
	require.NoError(t, err)
	require.True(t, shown, "or its first text is not read out")
	unavailable.Store(true)
	run(t, tab, `update()`)
	require.NoError(t, tab.Await(`/^Not updated since \d\d:\d\d:\d\d UTC\. Trying again\.$/.test(document.getElementById('notice').textContent)`))
	require.NoError(t, tab.Click("[aria-label='Copy the trace id']"))
	require.NoError(t, tab.Await(`document.getElementById('said').textContent === 'Copied'`))
	require.NoError(t, tab.Await(`document.getElementById('notice').textContent.startsWith('Not updated since')`))
	unavailable.Store(false)
	run(t, tab, `update()`)
	require.NoError(t, tab.Await(`document.getElementById('notice').textContent === ''`))
}

// TestFormIsSentOnce submits the form for a key twice before the response, and once more after the request
// was stopped.
func TestFormIsSentOnce(t *testing.T) {
	tab, _ := start(t)
	w := dashboardtest.Shop()
	var posts atomic.Int64
	hold := make(chan struct{})
	url := serve(t, w, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		if posts.Add(1); r.URL.Path == "/keys" {
			<-hold
		}
		return false
	})
	require.NoError(t, tab.Open(url+"/keys"))
	require.NoError(t, tab.Type("#name", "one"))
	run(t, tab, `const form = document.querySelector('form.newkey'); form.requestSubmit(); form.requestSubmit(); setTimeout(() => form.requestSubmit())`)
	close(hold)
	require.NoError(t, tab.Seen("#secret"))
	require.EqualValues(t, 1, posts.Load())
	require.Len(t, w.APIKeys, 6)

	// A stopped summary can be requested again.
	require.NoError(t, tab.Open(url+"/insights/"+w.Found[0].ID))
	run(t, tab, `
addEventListener('submit', (e) => e.preventDefault());
document.querySelector('[data-wait]').click()`)
	require.NoError(t, tab.Await(`document.querySelector('[data-wait].wait[aria-disabled]') !== null`))
	require.NoError(t, tab.Press("\u001b"))
	require.NoError(t, tab.Await(`document.querySelector('[data-wait]:not(.wait, [aria-disabled])') !== null && document.querySelector('[role=status]').textContent === ''`))
	require.NoError(t, tab.Click("[data-wait]"))
	require.NoError(t, tab.Await(`document.querySelector('[data-wait].wait') !== null`))
	run(t, tab, `dispatchEvent(new PageTransitionEvent('pageshow'))`)
	require.NoError(t, tab.Await(`document.querySelector('[data-wait].wait') === null`))
}

// TestCopyWithoutTLS copies on a page without access to the clipboard.
func TestCopyWithoutTLS(t *testing.T) {
	t.Parallel()
	tab, _ := start(t)
	url := serve(t, dashboardtest.Empty(), nil)
	require.NoError(t, tab.AllowClipboard(url))
	require.NoError(t, tab.Open(url+"/"))
	run(t, tab, `window.given = navigator.clipboard; Object.defineProperty(navigator, 'clipboard', { value: undefined })`)
	require.NoError(t, tab.Click(".code .copy"))
	require.NoError(t, tab.Await(`document.querySelector('.code .copy').textContent === 'Copied'`))
	got, err := browsertest.Evaluate[string](tab, `given.readText()`)
	require.NoError(t, err)
	require.Contains(t, got, "export OTEL_EXPORTER_OTLP_ENDPOINT=")
	clean, err := browsertest.Evaluate[bool](tab, `!document.querySelector('textarea') && document.activeElement.matches('.code .copy')`)
	require.NoError(t, err)
	require.True(t, clean)
	require.Empty(t, tab.Problems())
}
