// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/dashboard/browsertest"
)

// TestBackAfterSigningOut navigates back to pages of a session that was signed out in this browser, or by
// another browser that signs out everywhere.
func TestBackAfterSigningOut(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey, "--score-interval", "200ms", "--commit-interval", "10ms")
	d.mustPost(t, bootstrapKey, unset("courier", 3, "hello"))
	o := look(t, d)
	signIn := func() {
		t.Helper()
		o.open("/services")
		o.write("#key", bootstrapKey)
		o.press("main form button")
		o.reads("courier")
		o.press(".nav a[href='/keys']")
		o.reads("this session")
	}
	// requireSignIn waits for the sign-in page on a new page, and checks that no data of the session is shown.
	requireSignIn := func(what string) {
		t.Helper()
		require.NoError(t, o.Await(`!window.before && document.readyState === 'complete' && document.body.innerText.includes('The key needs the scope read') &&
  !document.body.innerText.includes('`+what+`') && document.querySelector('.nav') === null`))
		_, err := browsertest.Evaluate[bool](o.Tab, `window.before = true`)
		require.NoError(t, err)
	}
	for _, way := range []string{"/sign-out", "/sign-out/all"} {
		signIn()
		o.press(".menu summary")
		o.press("form[action='" + way + "'] button")
		requireSignIn("this session")
		require.NoError(t, o.Back())
		requireSignIn("this session")
		require.NoError(t, o.Back())
		requireSignIn("courier")
	}

	// A session that ends elsewhere is signed out at the next update.
	signIn()
	o.press(".nav a[href='/services']")
	o.reads("courier")
	_, err := browsertest.Evaluate[bool](o.Tab, `fetch('/sign-out', {method: 'POST'}).then(() => update()).then(() => true)`)
	require.NoError(t, err)
	requireSignIn("courier")
	require.NoError(t, o.Await(`location.search === '?return=%2Fservices'`))
}
