// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

// requests returns all well-formed samples.
func requests() []wiretest.Request {
	return append(wiretest.Fixtures(), wiretest.Real()...)
}

func TestViewsAgreeWithPdata(t *testing.T) {
	for _, r := range requests() {
		t.Run(r.Name, func(t *testing.T) {
			want, err := wiretest.DumpPdata(r.Signal, r.Body)
			require.NoError(t, err)
			got, err := wiretest.DumpWire(r.Signal, r.Body)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(want, got))
		})
	}
}

var update = flag.Bool("update", false, "rewrite testdata")

// TestViews compares what the views read from requests with every field with testdata/views.txt. The other tests compare
// only the reading of requests that are encoded in different ways.
func TestViews(t *testing.T) {
	var got strings.Builder
	for _, body := range []struct {
		signal wire.Signal
		body   []byte
	}{
		{wire.Traces, wiretest.MarshalTraces(wiretest.Traces(wiretest.Size{Resources: 1, Scopes: 1, Records: 2, Attributes: 1}))},
		{wire.Metrics, wiretest.MarshalMetrics(wiretest.Metrics(wiretest.Size{Resources: 1, Scopes: 1, Records: 5, Attributes: 1}))},
		{wire.Logs, wiretest.MarshalLogs(wiretest.Logs(wiretest.Size{Resources: 1, Scopes: 1, Records: 1, Attributes: 14}))},
	} {
		text, err := wiretest.DumpWire(body.signal, body.body)
		require.NoError(t, err)
		got.WriteString(text)
	}
	const golden = "testdata/views.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), got.String()))
}

// TestDamagedRequestsAgreeWithPdata truncates and flips every byte. pdata and the views must accept and reject the
// same requests, and agree on the content of accepted ones.
func TestDamagedRequestsAgreeWithPdata(t *testing.T) {
	size := wiretest.Size{Resources: 1, Scopes: 1, Records: 1, Attributes: 2}
	metrics := wiretest.Size{Resources: 1, Scopes: 1, Records: 5, Attributes: 2}
	for _, r := range []wiretest.Request{
		{Name: "traces", Signal: wire.Traces, Body: wiretest.MarshalTraces(wiretest.Traces(size))},
		{Name: "metrics", Signal: wire.Metrics, Body: wiretest.MarshalMetrics(wiretest.Metrics(metrics))},
		{Name: "logs", Signal: wire.Logs, Body: wiretest.MarshalLogs(wiretest.Logs(size))},
	} {
		for _, body := range [][]byte{r.Body, wiretest.Ascending(r.Signal, r.Body)} {
			accepted, rejected := 0, 0
			for name, damaged := range wiretest.Damaged(body) {
				ok := checkAgainstPdata(t, r.Signal, damaged)
				if t.Failed() {
					t.Fatalf("%s: %s: %x", r.Name, name, damaged)
				}
				if ok {
					accepted++
				} else {
					rejected++
				}
			}
			require.Greater(t, accepted, 100, r.Name)
			require.Greater(t, rejected, 100, r.Name)
		}
	}
}

// checkAgainstPdata fails the test if package wire and pdata disagree about body, apart from the divergences that
// TestDivergencesFromPdata pins. It reports whether wire accepts body.
func checkAgainstPdata(t *testing.T, signal wire.Signal, body []byte) bool {
	t.Helper()
	if bytes.Contains(body, deprecatedScopes) {
		_, err := wiretest.DumpWire(signal, body)
		return err == nil
	}
	want, pdataErr := wiretest.DumpPdata(signal, body)
	got, err := wiretest.DumpWire(signal, body)
	switch {
	case err == nil && pdataErr != nil:
		if !wiretest.HasGroup(signal, body) {
			t.Errorf("accepted, but pdata says: %v", pdataErr)
		}
	case err != nil && pdataErr == nil:
		if !stricter(err) {
			t.Errorf("pdata accepts it, but: %v", err)
		}
	case err == nil && want != got:
		// pdata keeps only the last of several packed occurrences.
		if diff := cmp.Diff(withoutNumbers(want), withoutNumbers(got)); diff != "" {
			t.Error(diff)
		}
	}
	if err != nil {
		var wireErr *wire.Error
		require.ErrorAs(t, err, &wireErr)
		if wireErr.Offset < 0 || wireErr.Offset > len(body) || wireErr.Field == "" || wireErr.Reason == "" {
			t.Errorf("bad error: %+v", wireErr)
		}
	}
	return err == nil
}

// deprecatedScopes is the tag of field 1000, instrumentation_library_spans of ResourceSpans before OTLP 0.15.
var deprecatedScopes = []byte{0xc2, 0x3e}

// stricter reports whether err is one of the faults that pdata accepts.
func stricter(err error) bool {
	var e *wire.Error
	return errors.As(err, &e) && (strings.Contains(e.Reason, "group") ||
		strings.Contains(e.Reason, "field number is out of range") || strings.Contains(e.Reason, "nested more than"))
}

// withoutNumbers removes the lines for bounds and bucket counts.
func withoutNumbers(dump string) string {
	lines := strings.Split(dump, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "bound ") || strings.HasPrefix(line, "count")
	}), "\n")
}
