// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/auth/oidctest"
	"assay/internal/dashboard/browsertest"
	"assay/internal/llm/llmtest"
	"assay/internal/rules/catalog"
	"assay/internal/rules/rulestest"
)

// onlooker is a tab that looks at pages as a user does, and at what no user sees.
type onlooker struct {
	*browsertest.Tab
	t    *testing.T
	root string
	axe  string // "": pages are not looked at by axe-core
}

func look(t *testing.T, d *daemon) *onlooker {
	t.Helper()
	b, err := browsertest.Start()
	require.NoError(t, err)
	t.Cleanup(b.Close)
	tab, err := b.NewTab()
	require.NoError(t, err)
	t.Cleanup(tab.Close)
	require.NoError(t, tab.Viewport(1280, 900, false))
	return &onlooker{Tab: tab, t: t, root: d.Root}
}

func (o *onlooker) open(path string) {
	o.t.Helper()
	require.NoError(o.t, o.Open(o.root+path))
}

// press clicks on what a selector finds once it is there.
func (o *onlooker) press(selector string) {
	o.t.Helper()
	require.NoError(o.t, o.Click(selector))
}

func (o *onlooker) write(selector, text string) {
	o.t.Helper()
	require.NoError(o.t, o.Type(selector, text))
}

// reads waits for a text on the page.
func (o *onlooker) reads(text string) {
	o.t.Helper()
	if err := o.Await(`document.body?.innerText.includes(` + quoted(text) + `)`); err != nil {
		page, _ := o.Text("body")
		require.NoError(o.t, err, page)
	}
}

func quoted(s string) string { return "`" + s + "`" }

// text returns the text of an element once it is there. A page that updates itself may replace it meanwhile.
func (o *onlooker) text(selector string) string {
	o.t.Helper()
	require.NoError(o.t, o.Await(`document.querySelector(`+quoted(selector)+`)?.innerText`))
	text, err := o.Text(selector)
	require.NoError(o.t, err)
	return text
}

// well holds that axe-core has nothing to say about the page, light or dark, and that
// nothing went wrong on the console or against the policy.
func (o *onlooker) well(page string) {
	o.t.Helper()
	for _, look := range []struct{ scheme, rules string }{{"dark", browsertest.Contrast}, {"light", browsertest.AllRules}} {
		if o.axe == "" {
			break
		}
		require.NoError(o.t, o.Scheme(look.scheme))
		found, err := o.Violations(o.axe, look.rules)
		require.NoError(o.t, err)
		require.Empty(o.t, found, "%s, %s", page, look.scheme)
	}
	require.Empty(o.t, o.Problems(), page)
}

// firstScore goes from the first run, which it is shown, to the first score: a key, what
// it is for, and the page that changes by itself. It returns the key.
func (o *onlooker) firstScore(d *daemon) string {
	o.t.Helper()
	o.press(".nav a[href='/']")
	o.reads("Waiting for data")
	o.well("first run")
	o.press("main form[action='/keys'] button")
	o.reads("It is shown only once")
	o.well("a new key")
	key := o.text("#secret")
	require.Contains(o.t, o.text(".tabs pre"), "OTEL_EXPORTER_OTLP_ENDPOINT="+d.OTLPHTTP)
	require.Contains(o.t, o.text(".tabs pre"), "Bearer%20"+key)
	o.press("main a[href='/']")
	o.reads("Waiting for data")
	d.mustPost(o.t, key, rulestest.MetricsRequest(rulestest.Metrics(rulestest.Service("cart"), rulestest.Gauge("queue.length", "", rulestest.Point(time.Now())))))
	d.mustPost(o.t, key, unset("courier", 3, "delivered to somebody@example.com"))
	o.reads("What to fix first")
	o.reads("Sensitive data in logs")
	o.well("overview")
	return key
}

// copyAFix goes to the worst service, to what is wrong with it, and copies a fix for the
// Collector.
func (o *onlooker) copyAFix() {
	o.t.Helper()
	o.press(".nav a[href='/services']")
	o.press("th a[href='/services?sort=score']")
	require.NoError(o.t, o.Await(`document.querySelector('th[aria-sort=ascending]') !== null`))
	o.well("services")
	require.NoError(o.t, o.Await(`document.querySelector('tbody td.main a')?.innerText === 'courier'`))
	o.press("tbody td.main a")
	o.reads("not evaluated")
	o.well("service")
	o.press("section[aria-labelledby=insights] td.main a")
	o.reads("What is wrong")
	o.reads("Sensitive data in logs")
	o.well("insight")

	// A fix for the Collector is copied.
	o.press(".tabs .choices label:nth-child(2)")
	require.NoError(o.t, o.Await(`document.querySelector('.tabs').innerText.includes('blocked_values')`))
	require.NoError(o.t, o.AllowClipboard(o.root))
	o.press(".tabs .tab:nth-of-type(3) .copy")
	require.NoError(o.t, o.Await(`document.querySelector('.tabs .tab:nth-of-type(3) .copy').textContent === 'Copied'`))
	copied, err := browsertest.Evaluate[string](o.Tab, `navigator.clipboard.readText()`)
	require.NoError(o.t, err)
	require.Regexp(o.t, `^processors:\n(.*\n)*  redaction:\n`, copied)
}

// mute mutes the insight that is shown, with a reason, and takes that back.
func (o *onlooker) mute() {
	o.t.Helper()
	o.write("#reason", "a test account")
	o.press("form[action$='/mute'] button")
	require.NoError(o.t, o.Await(`document.querySelector("form[action$='/unmute']") !== null`))
	o.reads("a test account")
	o.well("a muted insight")
	o.press(".nav a[href='/insights']")
	require.NoError(o.t, o.Await(`document.querySelector('[name=status]') !== null && !document.querySelector('.panel').innerText.includes('Sensitive data in logs')`))
	o.well("insights")
	o.open("/insights?status=muted")
	o.press("td.main a")
	o.press("form[action$='/unmute'] button")
	require.NoError(o.t, o.Await(`document.querySelector("form[action$='/mute']") !== null`))
}

// TestANewUserInABrowser goes from an empty installation through every page: first run
// to first score, the worst service, a fix that is understood and copied, a mute, a key
// that is made, used and revoked, signing out.
func TestANewUserInABrowser(t *testing.T) {
	t.Parallel()
	model := llmtest.New(t)
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey, "--score-interval", "200ms", "--commit-interval", "10ms",
		"--summary-provider", "openai", "--summary-url", model.URL, "--summary-model", "stub", "--summary-api-key", "sk-of-the-provider")
	o := look(t, d)
	var err error
	o.axe, err = browsertest.Axe("..")
	require.NoError(t, err)

	// Signing in, with a key that is mistyped first.
	o.open("/services")
	o.reads("Sign in")
	o.well("sign in")
	o.write("#key", "assay_sk_e2eE2E_00112233445566778899aabbccddeeee")
	o.press("main form button")
	o.reads("This API key is not valid")
	require.Len(t, o.Problems(), 1, "the status alone")
	o.write("#key", bootstrapKey)
	o.press("main form button")
	o.reads("No service has sent telemetry yet.")

	key := o.firstScore(d)
	o.copyAFix()

	// A summary, written on request.
	o.press("[data-wait]")
	require.NoError(t, o.Await(`document.querySelector('section[aria-labelledby=summary] .prose') !== null`))
	o.well("an insight with its summary")

	o.mute()

	// The catalogue.
	o.press(".nav a[href='/rules']")
	o.reads(fmt.Sprintf("%d rules determine the score", catalog.Scored))
	o.well("rules")
	o.press("td.main a[href='/rules/LOG-003']")
	o.reads("Evaluation")
	o.well("rule")

	// The key is revoked, and refused from then on.
	o.press(".nav a[href='/keys']")
	o.reads("this session")
	o.well("keys")

	// A webhook to this machine is created and tested, which the server does not allow.
	o.press("main a[href='/webhooks']")
	o.write("#name", "on call")
	o.write("#url", "https://localhost/hook")
	o.press("form[action='/webhooks'] button")
	o.reads("It is shown only once")
	o.well("a new webhook")
	o.press("section[aria-labelledby=made] a[href^='/webhooks/']")
	o.press("form[action$='/test'] button")
	o.reads("is not public")
	o.well("webhook")
	o.press("a[href$='/delete']")
	o.press("form[action$='/delete'] button")
	o.reads("Create a webhook")
	o.press("main a[href='/keys']")
	o.press("tbody tr:first-child a[href$='/revoke']")
	o.reads("This cannot be undone.")
	o.well("revoke a key")
	o.press("form[action$='/revoke'] button")
	o.reads("revoked")
	eventually(t, func() bool {
		r := unset("courier", 1, "once more")
		a, err := d.post(t.Context(), key, r.Signal, r.Body)
		return err == nil && a.Status == http.StatusUnauthorized
	}, "a revoked key is accepted")

	// Dark, remembered by the server.
	o.press(".menu summary")
	o.press(".segments button[value=dark]")
	require.NoError(t, o.Await(`document.documentElement.dataset.theme === 'dark'`))
	o.open("/nothing")
	o.reads("There is no page at this address.")
	require.NoError(t, o.Await(`document.documentElement.dataset.theme === 'dark'`))
	o.Problems() // the status

	o.press(".menu summary")
	o.press("form[action='/sign-out'] button")
	o.reads("The key needs the scope read")
	o.open("/keys")
	o.reads("The key needs the scope read")
	require.Empty(t, o.Problems())
}

// TestSignInAtAProviderInABrowser goes the same way as an administrator of an identity
// provider, and then as a user who may look and not manage keys, and out everywhere.
func TestSignInAtAProviderInABrowser(t *testing.T) {
	t.Parallel()
	provider, err := oidctest.Start()
	require.NoError(t, err)
	t.Cleanup(provider.Close)
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey, "--score-interval", "200ms", "--commit-interval", "10ms",
		"--oidc-issuer", provider.URL, "--oidc-audience", oidctest.Client, "--oidc-client-id", oidctest.Client, "--oidc-admin-claim", "administrator")
	require.Zero(t, d.assay(t, "organization", "set-external-id", "default", "customer-7").Code)

	o := look(t, d)
	signIn := func(path, seen string) {
		t.Helper()
		o.open(path)
		o.press("a[href^='/sign-in/provider']")
		require.NoError(t, o.Await(`document.querySelector('input[name=username]') !== null`))
		o.write("input[name=username]", oidctest.User)
		o.write("input[name=password]", oidctest.Password)
		o.press("button")
		require.NoError(t, o.Await(`location.pathname === `+quoted(path)+` && document.body.innerText.includes(`+quoted(seen)+`)`))
		for _, p := range o.Problems() {
			require.Contains(t, p, provider.URL, "the provider's pages are not ours")
		}
	}
	provider.SetClaim("administrator", true)
	signIn("/", "Waiting for data")
	key := o.firstScore(d)
	o.copyAFix()
	o.mute()
	o.open("/keys")
	o.reads("first service")
	require.Contains(t, o.text("tbody"), key[len("assay_sk_"):][:6], "the id of the key that was made")
	o.press(".menu summary")
	o.press("form[action='/sign-out'] button")
	o.reads("Continue with your identity provider")

	provider.SetClaim("administrator", nil)
	signIn("/services", "courier")
	o.axe, err = browsertest.Axe("..")
	require.NoError(t, err)
	o.open("/keys")
	o.reads("needs a session with the scope admin")
	o.well("keys of a user")
	o.press(".menu summary")
	o.press("form[action='/sign-out/all'] button")
	o.reads("Continue with your identity provider")
	o.well("sign in at a provider")
	o.open("/services")
	o.reads("Continue with your identity provider")
}
