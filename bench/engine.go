// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"assay"
	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/rules"
	"assay/internal/rules/catalog"
	"assay/internal/trace"
	"assay/internal/wire"
)

// The shapes of the engine bench. The targets apply to the shapes that are not unique.
var engineShapes = []shape{
	{name: "requests as recorded"},
	{name: "requests of 1,000 records", records: 1000},
	{name: "requests as recorded, fields in the order of pdata", pdata: true},
	{name: "requests as recorded, no attribute value and no body ever seen before", unique: true},
}

const (
	workloadBytes = 12 << 20 // of one pass, at least
	settleIn      = 12       // passes of the analysis alone, until its traces and caches reach a steady state
	warmUp        = 1        // rounds that do not count
	ratioTarget   = 2
	allocsTarget  = 0.05
)

// runEngine compares unmarshalling by pdata and the whole analysis on the same bytes, on
// one core.
func runEngine(ctx context.Context, s *settings, emit func(*table) error) error {
	recordings, err := readRecordings(s.recordings)
	if err != nil {
		return err
	}
	// Use one core for all work, including garbage collection.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, shape := range engineShapes {
		for _, signal := range []wire.Signal{wire.Traces, wire.Metrics, wire.Logs} {
			if err := ctx.Err(); err != nil {
				return err
			}
			w, err := newWorkload(recordings, signal, shape, workloadBytes)
			if err != nil {
				return err
			}
			t, err := compareEngine(ctx, s, w)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", signal, shape.name, err)
			}
			if err := emit(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// contender is one side of the comparison. pass processes the whole workload once. check
// then reports whether the pass did the timed work.
type contender struct {
	name  string
	pass  func(w *workload) error
	check func(w *workload) error

	seconds, allocs []float64 // by round
}

func compareEngine(ctx context.Context, s *settings, w *workload) (*table, error) {
	a, err := newAnalysis(ctx, w.signal)
	if err != nil {
		return nil, err
	}
	var p counter
	sides := []*contender{
		{name: "pdata, unmarshal", pass: p.pdata, check: p.check},
		{name: "whole analysis", pass: func(w *workload) error { return a.pass(ctx, w) }, check: a.check},
	}
	for range settleIn {
		w.renew(passTime)
		if err := a.pass(ctx, w); err != nil {
			return nil, err
		}
	}
	for i := range warmUp + s.rounds {
		w.renew(passTime)
		for j := range sides {
			side := sides[(i+j)%len(sides)]
			seconds, allocs, err := timed(func() error { return side.pass(w) })
			if err == nil {
				err = side.check(w)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side.name, err)
			}
			if i >= warmUp {
				side.seconds = append(side.seconds, seconds)
				side.allocs = append(side.allocs, allocs/float64(w.records))
			}
		}
	}
	if s.profile != "" {
		err := s.profiled(fmt.Sprintf("%s-%d", w.signal, slices.Index(engineShapes, w.shape)), func() error {
			for range 2 * s.rounds {
				w.renew(passTime)
				if err := a.pass(ctx, w); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return engineTable(w, sides), nil
}

// timed returns the processor time and the allocations of f.
func timed(f func() error) (seconds, allocs float64, err error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, err := processTime()
	if err != nil {
		return 0, 0, err
	}
	if err := f(); err != nil {
		return 0, 0, err
	}
	ended, err := processTime()
	runtime.ReadMemStats(&after)
	return (ended - began).Seconds(), float64(after.Mallocs - before.Mallocs), err
}

func engineTable(w *workload, sides []*contender) *table {
	t := &table{
		Title: fmt.Sprintf("%s, %s (%d requests, %s records, %.1f MB a pass)",
			w.signal, w.shape.name, len(w.requests), thousands(int64(w.records)), float64(w.bytes)/1e6),
		Columns: []string{"MB/s", "records/s", "allocs/record", "x pdata", "min", "max"},
	}
	pdata, analysis := sides[0], sides[len(sides)-1]
	for _, side := range sides {
		r := paired(pdata.seconds, side.seconds)
		seconds := median(side.seconds)
		t.Rows = append(t.Rows, row{side.name, []value{
			value(float64(w.bytes) / 1e6 / seconds), value(float64(w.records) / seconds), value(median(side.allocs)),
			value(r.median()), value(r.min()), value(r.max()),
		}})
	}
	note := fmt.Sprintf("new in every pass: ids, times, %.1f %% of the attribute values", percent(len(w.share.newValues), w.share.values))
	if w.share.bodies > 0 {
		note += fmt.Sprintf(", %.0f %% of the bodies", percent(len(w.share.newBodies), w.share.bodies))
	}
	t.Notes = append(t.Notes, note)
	if !w.shape.unique {
		t.Targets = []target{
			atLeast("speed of the analysis, pdata = 1,", ratioTarget, paired(pdata.seconds, analysis.seconds).median()),
			atMost("allocations per record", allocsTarget, median(analysis.allocs)),
		}
	}
	return t
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(1, whole)) }

// counter counts the records that pdata decodes in a pass.
type counter struct{ records int }

func (c *counter) pdata(w *workload) error {
	c.records = 0
	for _, r := range w.requests {
		n, err := countRecords(w.signal, r.body)
		if err != nil {
			return err
		}
		c.records += n
	}
	return nil
}

func (c *counter) check(w *workload) error {
	if c.records != w.records {
		return fmt.Errorf("found %d records, not %d", c.records, w.records)
	}
	return nil
}

// countRecords decodes a request with pdata and returns how many records it has.
func countRecords(signal wire.Signal, body []byte) (int, error) {
	switch signal {
	case wire.Traces:
		x := ptraceotlp.NewExportRequest()
		err := x.UnmarshalProto(body)
		return x.Traces().SpanCount(), err
	case wire.Metrics:
		x := pmetricotlp.NewExportRequest()
		err := x.UnmarshalProto(body)
		return x.Metrics().DataPointCount(), err
	default:
		x := plogotlp.NewExportRequest()
		err := x.UnmarshalProto(body)
		return x.Logs().LogRecordCount(), err
	}
}

// analysis processes requests like a server between the receiver and the store: it evaluates them, merges the
// results into a delta for each group of requests, and adds spans to the open traces, which it closes when
// they are due. Its clock follows the workload.
type analysis struct {
	signal    wire.Signal
	filter    *delta.Filter
	evaluator *rules.Evaluator
	traces    *trace.Assembler
	batch     rules.Batch
	pending   *delta.Delta
	now       time.Time
	key       delta.HashKey
	found     found
}

// found counts the contents of the deltas of a pass.
type found struct {
	items    uint64
	observed [catalog.Count]uint64
}

const (
	organization   = "01234567-89ab-7cde-8f01-23456789abcd"
	commitInterval = 100 * time.Millisecond
)

func newAnalysis(ctx context.Context, signal wire.Signal) (*analysis, error) {
	quota := engine.NewQuota(engine.QuotaConfig{Store: emptyStore{}})
	if err := quota.Load(ctx, organization); err != nil {
		return nil, err
	}
	f := delta.NewFilter(21)
	return &analysis{
		signal: signal, filter: f, pending: new(delta.Delta),
		evaluator: rules.NewEvaluator(rules.Config{Filter: f, Quota: quota}),
		traces:    trace.NewAssembler(trace.Config{Filter: f}),
		now:       start,
		key:       quota.HashKey(organization),
	}, nil
}

// passTime is the duration of a pass on the clock of the analysis. The spans of three
// passes are open at any time, and traces have closed before the first round.
const passTime = 10 * time.Second

// pass processes the workload. It commits as often as a server, by the real clock.
func (a *analysis) pass(ctx context.Context, w *workload) error {
	a.found = found{}
	step := passTime / time.Duration(len(w.requests))
	last, second := time.Now(), a.now
	for _, r := range w.requests {
		a.now = a.now.Add(step)
		now := uint64(a.now.UnixNano())
		in := rules.Input{
			OrganizationID: organization,
			HashKey:        a.key,
			Start:          now - uint64(assay.DefaultWindow),
			MetricStart:    now - uint64(assay.MetricWindow),
			Arrival:        now,
			Latest:         now + uint64(time.Minute),
		}
		if err := a.evaluator.Evaluate(ctx, w.signal, r.body, in, &a.batch); err != nil {
			return err
		}
		a.batch.MergeInto(a.pending)
		a.traces.Add(a.now, organization, a.batch.Spans)
		a.found.items += a.batch.Items[rules.SignalOf(w.signal)]
		a.batch.Reset()
		if a.now.Sub(second) >= time.Second {
			second = a.now
			a.traces.Expire(a.now, in.Start, a.pending)
		}
		if t := time.Now(); t.Sub(last) >= commitInterval {
			last = t
			a.commit()
		}
	}
	a.commit()
	return nil
}

// commit does the work after a transaction, and counts the contents of its delta.
func (a *analysis) commit() {
	for _, h := range a.pending.Remember {
		a.filter.Add(h)
	}
	for _, o := range a.pending.Organizations {
		for _, s := range o.Services {
			for i := range s.Verdicts {
				for r, c := range s.Verdicts[i].Counts {
					a.found.observed[r] += c.Observed
				}
			}
		}
	}
	a.pending = new(delta.Delta)
}

// each is the rule that observes every record of a signal, or for metrics every metric
// with a data point.
var each = map[wire.Signal]catalog.Rule{wire.Traces: catalog.SPA006, wire.Metrics: catalog.MET008, wire.Logs: catalog.LOG003}

func (a *analysis) check(w *workload) error {
	evaluated := a.found.observed[each[w.signal]]
	switch {
	case a.found.items != uint64(w.records):
		return fmt.Errorf("evaluated %d records, not %d", a.found.items, w.records)
	case w.signal != wire.Metrics && evaluated != uint64(w.records):
		return fmt.Errorf("verdicts on %d records, not %d", evaluated, w.records)
	case evaluated == 0:
		return fmt.Errorf("no verdicts")
	}
	return nil
}

// emptyStore is a store without services, for the quota.
type emptyStore struct{ engine.Store }

func (emptyStore) KnownServices(context.Context, string) ([]assay.ServiceKey, error) {
	return nil, nil
}

func (emptyStore) HashKey(context.Context, string) (delta.HashKey, error) {
	return delta.NewHashKey(make([]byte, delta.HashSecretBytes))
}

func (emptyStore) KnownMetricNames(context.Context, string) (map[assay.ServiceKey][]uint64, error) {
	return nil, nil
}
