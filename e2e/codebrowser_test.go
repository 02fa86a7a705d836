// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay/internal/codebase/source/gittest"
	"assay/internal/dashboard/browsertest"
	"assay/internal/rules/rulestest"
)

// ran follows a run on its page, which changes by itself, until it is completed.
func (o *onlooker) ran(page string) {
	o.t.Helper()
	require.NoError(o.t, o.Await(`location.pathname.startsWith('/runs/')`))
	require.NoError(o.t, o.Await(`document.querySelector('.head').innerText.includes('completed')`))
	o.well(page)
}

// TestARepositoryInABrowser goes from an empty installation to a finding that a commit has resolved: connect, activate,
// review, the finding and the insight that it explains, a preview of the fix, and the review of the mended code.
func TestARepositoryInABrowser(t *testing.T) {
	t.Parallel()
	files := fixture(t, "go")
	delete(files, "shop_test.go") // the preview is not verified
	host := startGit(t, files)
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey, "--score-interval", "200ms", "--commit-interval", "10ms", "--trace-idle", "200ms",
		"--agent-allow-private-hosts", "--agent-source-ca", host.CA)
	o := look(t, d)
	var err error
	o.axe, err = browsertest.Axe("..")
	require.NoError(t, err)

	o.open("/")
	o.write("#key", bootstrapKey)
	o.press("main form button")
	o.reads("Send the first data")
	d.mustPost(t, bootstrapKey, rulestest.Traces(rulestest.Spans(rulestest.Service("shop"), rulestest.Span(1, 1, 0, func(s *tracepb.Span) {
		s.StartTimeUnixNano, s.EndTimeUnixNano = rulestest.Nano(time.Now()), rulestest.Nano(time.Now())
		s.Attributes = rulestest.Attrs("user.email", "mona@shop.example.com")
	}))))
	o.reads("Sensitive data in spans")
	o.press(".nav a[href='/repositories']")
	o.reads("No repository is connected.")
	o.well("no repository")
	o.press(".head a[href='/repositories/connect']")
	connect := "form[action='/repositories/connect'] button"
	o.write("#address", host.URL+"/shop.git")
	o.write("#token", "wrong")
	o.press(connect)
	o.reads("rejected")
	require.Len(t, o.Problems(), 1, "the status alone")
	o.well("a repository that cannot be read")
	o.write("#token", gittest.Token)
	o.press(connect)
	o.reads("No review has ended yet.")
	o.press("form[action$='/deactivate'] button")
	o.press("form[action$='/activate'] button")
	require.NoError(t, o.Seen("form[action$='/deactivate'] button"))
	o.well("an active repository")
	o.press("form[action$='/review'] button")
	o.ran("a review")
	o.reads("Open insights confirm 1 of")

	o.press(".where a")
	o.reads("Active findings")
	o.press("section[aria-labelledby=list] td.main a")
	o.reads("What is wrong")
	o.reads("user.email")
	o.well("a finding")
	address, err := browsertest.Evaluate[string](o.Tab, `location.pathname`)
	require.NoError(t, err)
	o.press("section[aria-labelledby=seen] a")
	o.reads("In the code")
	require.Equal(t, "Sensitive data in spans", o.text("h1"))
	o.well("the insight of a finding")
	o.press("section[aria-labelledby=code] a[href='" + address + "']")
	o.press("section[aria-labelledby=mend] button[name=preview]")
	o.ran("a preview")
	require.Contains(t, o.text(".lines li.removed"), "user.email")
	require.Equal(t, "main", gittest.Git(t, host.dir, "branch", "--format=%(refname:short)"), "nothing is pushed")

	mended := map[string]string{"shop.go": ""}
	for line := range strings.Lines(files["shop.go"]) {
		if !strings.Contains(line, "user.email") {
			mended["shop.go"] += line
		}
	}
	gittest.Push(t, host.dir, mended)
	o.press(".where a")
	o.press("form[action$='/review'] button")
	o.ran("the review of the mended code")
	o.open(address)
	o.reads("resolved")
	o.well("a resolved finding")
	o.open("/findings")
	o.reads("order")
	require.NoError(t, o.Await(`document.querySelector("a[href='`+address+`']") === null`))
}
