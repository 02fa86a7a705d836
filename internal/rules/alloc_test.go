// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bufio"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/delta"
	"assay/internal/rules/rulestest"
	"assay/internal/wire"
	"assay/internal/wire/otlpjson"
	"assay/internal/wire/wiretest"
)

// TestSteadyStateDoesNotAllocate: once names, attributes and facts are known, a
// record costs no memory.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	size := wiretest.Size{Resources: 2, Scopes: 2, Records: 100, Attributes: 10}
	for signal, body := range map[wire.Signal][]byte{
		wire.Traces:  wiretest.MarshalTraces(wiretest.Traces(size)),
		wire.Metrics: wiretest.MarshalMetrics(wiretest.Metrics(size)),
		wire.Logs:    wiretest.MarshalLogs(wiretest.Logs(size)),
	} {
		t.Run(signal.String(), func(t *testing.T) {
			in := input()
			in.Start, in.MetricStart, in.Latest = 0, 0, 1<<63
			filter := delta.NewFilter(20)
			e := NewEvaluator(Config{Filter: filter, Quota: &quota{}})
			var b Batch
			run := func() {
				b.Reset()
				require.NoError(t, e.Evaluate(t.Context(), signal, body, in, &b))
			}
			run()
			records := 0
			for _, n := range b.Items {
				records += int(n)
			}
			require.GreaterOrEqual(t, records, 400)
			d := new(delta.Delta)
			b.MergeInto(d)
			for _, h := range d.Remember {
				filter.Add(h)
			}
			run()
			perRecord := testing.AllocsPerRun(20, run) / float64(records)
			t.Logf("%.4f allocations a record", perRecord)
			require.Less(t, perRecord, 0.05)
		})
	}
}

// recording returns the requests of a recording.
func recording(tb testing.TB, name string) (requests []rulestest.Request) {
	tb.Helper()
	f, err := os.Open(name)
	require.NoError(tb, err)
	defer f.Close()
	plain, err := gzip.NewReader(f)
	require.NoError(tb, err)
	lines := bufio.NewScanner(plain)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		signal, err := otlpjson.Detect(lines.Bytes())
		require.NoError(tb, err)
		body, err := otlpjson.Transcode(tb.Context(), signal, nil, lines.Bytes(), 0)
		require.NoError(tb, err)
		requests = append(requests, rulestest.Request{Signal: signal, Body: body})
	}
	require.NoError(tb, lines.Err())
	return requests
}

// BenchmarkEvaluate judges what real senders sent, with facts committed after
// each round.
func BenchmarkEvaluate(b *testing.B) {
	files, err := filepath.Glob("../../testdata/recordings/*.jsonl.gz")
	require.NoError(b, err)
	require.NotEmpty(b, files)
	for _, file := range files {
		all := recording(b, file)
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")
		for _, signal := range wiretest.Signals {
			var bodies [][]byte
			bytes := 0
			for _, q := range all {
				if q.Signal == signal {
					bodies = append(bodies, q.Body)
					bytes += len(q.Body)
				}
			}
			if len(bodies) == 0 {
				continue
			}
			b.Run(name+"/"+signal.String(), func(b *testing.B) {
				in := input()
				in.Start, in.MetricStart, in.Latest = 0, 0, 1<<63
				filter := delta.NewFilter(20)
				e := NewEvaluator(Config{Filter: filter})
				var batch Batch
				records := uint64(0)
				b.SetBytes(int64(bytes))
				b.ReportAllocs()
				for b.Loop() {
					d := new(delta.Delta)
					for _, body := range bodies {
						batch.Reset()
						if err := e.Evaluate(b.Context(), signal, body, in, &batch); err != nil {
							b.Fatal(err)
						}
						batch.MergeInto(d)
						records += batch.Items[SignalOf(signal)]
					}
					for _, h := range d.Remember {
						filter.Add(h)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(records), "ns/record")
			})
		}
	}
}
