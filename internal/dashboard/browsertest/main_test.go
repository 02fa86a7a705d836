// SPDX-License-Identifier: Apache-2.0

package browsertest_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"assay/internal/dashboard/browsertest"
)

// browser is shared by all tests.
var browser *browsertest.Browser

// withBrowser runs tests with a browser.
type withBrowser struct{ m *testing.M }

func (w withBrowser) Run() int {
	var err error
	if browser, err = browsertest.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer browser.Close()
	return w.m.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(withBrowser{m}) }
