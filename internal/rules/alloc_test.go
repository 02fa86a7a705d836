// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"assay/internal/delta"
	"assay/internal/rules/rulestest"
	"assay/internal/wire"
	"assay/internal/wire/otlpjson"
	"assay/internal/wire/wiretest"
)

// TestSteadyStateDoesNotAllocate: a record with known names, attributes and facts does
// not allocate.
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
		signals, err := otlpjson.Detect(lines.Bytes())
		require.NoError(tb, err)
		require.Len(tb, signals, 1)
		signal := signals[0]
		body, err := otlpjson.Transcode(tb.Context(), signal, nil, lines.Bytes(), 0)
		require.NoError(tb, err)
		requests = append(requests, rulestest.Request{Signal: signal, Body: body})
	}
	require.NoError(tb, lines.Err())
	return requests
}

// BenchmarkEvaluate evaluates recorded telemetry and commits the facts after each round.
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

// BenchmarkUnseen evaluates log records whose bodies and attributes no cache knows.
func BenchmarkUnseen(b *testing.B) {
	lines := []string{
		`10.12.4.%d - - [21/Nov/2026:04:13:59 +0000] "GET /api/v1/orders/%[1]d?page=2&sort=created_at HTTP/1.1" 200 5123 "https://shop.example.com/cart" "Mozilla/5.0 (X11; Linux x86_64)" rt=0.043`,
		`{"ts":"2026-11-21T04:13:59.123456Z","level":"info","msg":"order accepted","order_id":"11bed264-3858-400d-b1e8-%012d","items":3,"total":"59.90","currency":"EUR"}`,
		`time=2026-11-21T04:13:59.123Z level=INFO msg="request done" method=POST path=/v1/checkout/%d status=201 duration=12.4ms bytes=512 pod=cart-7d9f8b6c5d-x2x9z`,
		`Could not reserve stock for product %d: the warehouse answered after the deadline and the reservation was rolled back`,
	}
	var records []*logspb.LogRecord
	size := 0
	for i := range 4000 {
		body := fmt.Sprintf(lines[i%len(lines)], i)
		size += len(body)
		records = append(records, rulestest.Log(body))
	}
	request := rulestest.LogsRequest(rulestest.Logs(rulestest.Service("a"), records...))
	b.SetBytes(int64(size))
	for b.Loop() {
		b.StopTimer()
		e := NewEvaluator(Config{})
		var batch Batch
		b.StartTimer()
		require.NoError(b, e.Evaluate(b.Context(), request.Signal, request.Body, input(), &batch))
	}
}
