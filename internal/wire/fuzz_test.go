// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"testing"

	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

func FuzzTraces(f *testing.F)  { fuzz(f, wire.Traces) }
func FuzzMetrics(f *testing.F) { fuzz(f, wire.Metrics) }
func FuzzLogs(f *testing.F)    { fuzz(f, wire.Logs) }

// fuzz compares the views with pdata: nothing panics, both accept the same requests apart from the pinned
// divergences, and both agree on the content. Every Decode accepts a request that Validate accepts.
func fuzz(f *testing.F, signal wire.Signal) {
	for _, r := range requests() {
		if r.Signal == signal && len(r.Body) < 4096 {
			f.Add(r.Body)
		}
	}
	f.Add(wiretest.InResource(wiretest.Nested(wire.MaxDepth+1, true)))
	f.Add(wiretest.InRecord([]byte{0xa3, 6, 8, 1, 0xa4, 6}))
	f.Fuzz(func(t *testing.T, body []byte) {
		accepted := checkAgainstPdata(t, signal, body)
		if _, err := walk(signal, body); accepted && err != nil {
			t.Errorf("Validate accepts it, but: %v", err)
		}
	})
}
