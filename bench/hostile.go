// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"assay"
	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/rules"
	"assay/internal/wire"
	"assay/internal/wire/otlpjson"
	"assay/internal/wire/wiretest"
)

const (
	hostileBytes  = 64 << 20 // of a request, the most that a server accepts
	hostileTarget = 5
	// hostileObjects is from how many bytes of protobuf pdata is asked for JSON at most:
	// its objects take a hundred times the memory.
	hostileObjects = 4 << 20
)

// runHostile compares requests of hostile shapes with ordinary telemetry of the same
// size: the analysis of one request with empty caches until its facts are merged or it
// is refused, and turning OTLP/JSON into protobuf. In every round both sides are timed.
func runHostile(ctx context.Context, s *settings, emit func(*table) error) error {
	recordings, err := readRecordings(s.recordings)
	if err != nil {
		return err
	}
	binary := hostileBench{rounds: max(1, s.rounds/2), once: evaluateOnce, table: table{
		Title:   fmt.Sprintf("analysis of one request of %d MiB, the mean of ordinary telemetry = 1", hostileBytes>>20),
		Columns: []string{"s", "x ordinary", "min", "max", "steps/B", "refused"},
	}}
	text := hostileBench{rounds: max(1, s.rounds/2), once: transcodeOnce, table: table{
		Title:   fmt.Sprintf("%d MiB of OTLP/JSON to protobuf, the mean of ordinary telemetry = 1", hostileBytes>>20),
		Columns: []string{"s", "x ordinary", "min", "max", "refused"},
	}}
	unseen := make(map[wire.Signal][]byte)
	for _, signal := range wiretest.Signals {
		w, err := newWorkload(recordings, signal, engineShapes[0], hostileBytes)
		if err != nil {
			return err
		}
		doc, err := hostileJSON(signal, joined(w, hostileObjects))
		if err != nil {
			return err
		}
		w.renew(passTime)
		binary.ordinary = append(binary.ordinary, hostileInput{signal, joined(w, hostileBytes)})
		text.ordinary = append(text.ordinary, hostileInput{signal, doc})
		if w, err = newWorkload(recordings, signal, engineShapes[3], hostileBytes); err != nil {
			return err
		}
		w.renew(passTime)
		unseen[signal] = joined(w, hostileBytes)
	}
	for i, signal := range wiretest.Signals {
		if err := errors.Join(
			binary.add(ctx, "ordinary "+signal.String(), binary.ordinary[i]),
			binary.add(ctx, signal.String()+" of which nothing was seen before", hostileInput{signal, unseen[signal]}),
			text.add(ctx, "ordinary "+signal.String(), text.ordinary[i]),
		); err != nil {
			return err
		}
	}
	for _, h := range wiretest.Shapes() {
		h.At = start
		if err := binary.add(ctx, h.Name, hostileInput{h.Signal, h.Request(hostileBytes)}); err != nil {
			return err
		}
		doc, err := hostileJSON(h.Signal, h.Request(hostileObjects))
		if err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		if err := text.add(ctx, h.Name, hostileInput{h.Signal, doc}); err != nil {
			return err
		}
	}
	for _, d := range wiretest.Documents() {
		if err := text.add(ctx, d.Name, hostileInput{d.Signal, d.Request(hostileBytes)}); err != nil {
			return err
		}
	}
	for _, b := range []*hostileBench{&binary, &text} {
		b.Targets = []target{atMost("the worst, ordinary telemetry = 1,", hostileTarget, b.worst)}
		if err := emit(&b.table); err != nil {
			return err
		}
	}
	return nil
}

// hostileInput is one request.
type hostileInput struct {
	signal wire.Signal
	body   []byte
}

// hostileBench times requests beside ordinary ones.
type hostileBench struct {
	table
	rounds   int
	once     func(context.Context, hostileInput) (run func() error, steps func() uint64, err error)
	ordinary []hostileInput
	worst    float64
}

// time returns the processor time of one run, its steps for each byte, and whether the
// request was refused.
func (b *hostileBench) time(ctx context.Context, in hostileInput) (seconds, steps float64, refused bool, err error) {
	run, count, err := b.once(ctx, in)
	if err != nil {
		return 0, 0, false, err
	}
	seconds, _, err = timed(func() error {
		err := run()
		if _, malformed := errors.AsType[*wire.Error](err); malformed || errors.Is(err, otlpjson.ErrTooLarge) {
			refused = true
			return nil
		}
		return err
	})
	return seconds, float64(count()) / float64(len(in.body)), refused, err
}

// add adds a row.
func (b *hostileBench) add(ctx context.Context, name string, in hostileInput) error {
	var hostile, ordinary []float64
	var steps float64
	refused := value(0)
	for range b.rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		mean := 0.0
		for _, o := range b.ordinary {
			seconds, _, _, err := b.time(ctx, o)
			if err != nil {
				return err
			}
			mean += seconds / float64(len(b.ordinary))
		}
		seconds, n, r, err := b.time(ctx, in)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if r {
			refused = 1
		}
		hostile, ordinary, steps = append(hostile, seconds), append(ordinary, mean), n
	}
	r := paired(hostile, ordinary)
	b.worst = max(b.worst, r.median())
	values := []value{value(median(hostile)), value(r.median()), value(r.min()), value(r.max())}
	if steps > 0 {
		values = append(values, value(steps))
	}
	b.Rows = append(b.Rows, row{name, append(values, refused)})
	return nil
}

// joined returns requests of the workload as one of about size bytes.
func joined(w *workload, size int) (body []byte) {
	for _, r := range w.requests {
		if len(body) < size {
			body = append(body, r.body...)
		}
	}
	return body
}

// evaluateOnce prepares the analysis of a request with empty caches.
func evaluateOnce(ctx context.Context, r hostileInput) (run func() error, steps func() uint64, err error) {
	now := uint64(start.UnixNano())
	in := rules.Input{
		OrganizationID: organization, Arrival: now, Latest: now + uint64(time.Minute),
		Start: now - uint64(assay.DefaultWindow), MetricStart: now - uint64(assay.MetricWindow),
	}
	quota := engine.NewQuota(engine.QuotaConfig{Store: emptyStore{}})
	if err := quota.Load(ctx, organization); err != nil {
		return nil, nil, err
	}
	in.HashKey = quota.HashKey(organization)
	e := rules.NewEvaluator(rules.Config{Filter: delta.NewFilter(21), Quota: quota})
	var b rules.Batch
	return func() error {
		if err := e.Evaluate(ctx, r.signal, r.body, in, &b); err != nil {
			return err
		}
		b.MergeInto(new(delta.Delta))
		return nil
	}, e.Steps, nil
}

// transcodeOnce prepares turning a document into protobuf.
func transcodeOnce(ctx context.Context, r hostileInput) (run func() error, steps func() uint64, err error) {
	out := make([]byte, 0, len(r.body))
	return func() error {
		_, err := otlpjson.Transcode(ctx, r.signal, out, r.body, hostileBytes)
		return err
	}, func() uint64 { return 0 }, nil
}

// hostileJSON returns an OTLP/JSON request of about hostileBytes that repeats the
// entries of a protobuf one.
func hostileJSON(signal wire.Signal, body []byte) ([]byte, error) {
	var doc []byte
	var err error
	switch signal {
	case wire.Traces:
		x := ptraceotlp.NewExportRequest()
		if err = x.UnmarshalProto(body); err == nil {
			doc, err = x.MarshalJSON()
		}
	case wire.Metrics:
		x := pmetricotlp.NewExportRequest()
		if err = x.UnmarshalProto(body); err == nil {
			doc, err = x.MarshalJSON()
		}
	case wire.Logs:
		x := plogotlp.NewExportRequest()
		if err = x.UnmarshalProto(body); err == nil {
			doc, err = x.MarshalJSON()
		}
	}
	if err != nil {
		return nil, err
	}
	open, end := bytes.IndexByte(doc, '['), bytes.LastIndexByte(doc, ']')
	entries := doc[open+1 : end]
	dst := append(make([]byte, 0, hostileBytes+len(doc)), doc[:open+1]...)
	for first := true; first || len(dst)+len(entries) < hostileBytes; first = false {
		if !first {
			dst = append(dst, ',')
		}
		dst = append(dst, entries...)
	}
	return append(dst, doc[end:]...), nil
}
