// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The tests wait for disks and for stores that start, more than for processors.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(
		m,
		// A TSDB that fails to open leaves its log's goroutine behind. One that was not closed would
		// still be told by that of its compactions.
		goleak.IgnoreTopFunction("github.com/prometheus/prometheus/tsdb/wlog.(*WL).run"),
	)
}
