// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
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
// is refused, and turning OTLP/JSON into protobuf.
func runHostile(ctx context.Context, s *settings, emit func(*table) error) error {
	recordings, err := readRecordings(s.recordings)
	if err != nil {
		return err
	}
	binary := hostileTable{table: table{
		Title:   fmt.Sprintf("analysis of one request of %d MiB, ordinary telemetry = 1", hostileBytes>>20),
		Columns: []string{"s", "x ordinary", "steps/B", "refused"},
	}}
	text := hostileTable{table: table{
		Title:   fmt.Sprintf("%d MiB of OTLP/JSON to protobuf, ordinary telemetry = 1", hostileBytes>>20),
		Columns: []string{"s", "x ordinary", "refused"},
	}}
	for _, shape := range []shape{engineShapes[0], engineShapes[3]} {
		for _, signal := range wiretest.Signals {
			w, err := newWorkload(recordings, signal, shape, hostileBytes)
			if err != nil {
				return err
			}
			if !shape.unique {
				doc, err := hostileJSON(signal, joined(w, hostileObjects))
				if err != nil {
					return err
				}
				seconds, err := transcodeHostile(s.rounds, signal, doc)
				if err := text.ordinary("ordinary "+signal.String(), seconds, err); err != nil {
					return err
				}
			}
			w.renew(passTime)
			seconds, steps, err := evaluateHostile(ctx, s.rounds, signal, joined(w, hostileBytes), start)
			if shape.unique {
				err = binary.add("nothing seen before, "+signal.String(), seconds, err, steps)
			} else {
				err = binary.ordinary("ordinary "+signal.String(), seconds, err, steps)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, h := range wiretest.Shapes() {
		if err := ctx.Err(); err != nil {
			return err
		}
		h.At = start
		seconds, steps, err := evaluateHostile(ctx, s.rounds, h.Signal, h.Request(hostileBytes), start)
		if err := binary.add(h.Name, seconds, err, steps); err != nil {
			return err
		}
		doc, err := hostileJSON(h.Signal, h.Request(hostileObjects))
		if err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		seconds, err = transcodeHostile(s.rounds, h.Signal, doc)
		if err := text.add(h.Name, seconds, err); err != nil {
			return err
		}
	}
	for _, d := range wiretest.Documents() {
		seconds, err := transcodeHostile(s.rounds, d.Signal, d.Request(hostileBytes))
		if err := text.add(d.Name, seconds, err); err != nil {
			return err
		}
	}
	for _, t := range []*hostileTable{&binary, &text} {
		t.Targets = []target{atMost("the worst, ordinary telemetry = 1,", hostileTarget, t.worst)}
		if err := emit(&t.table); err != nil {
			return err
		}
	}
	return nil
}

// hostileTable is a table whose first rows are ordinary telemetry.
type hostileTable struct {
	table
	seconds []float64 // of ordinary telemetry
	worst   float64
}

func (t *hostileTable) ordinary(name string, seconds float64, err error, more ...float64) error {
	t.seconds = append(t.seconds, seconds)
	return t.add(name, seconds, err, more...)
}

// add adds a row. Refused requests are no error.
func (t *hostileTable) add(name string, seconds float64, err error, more ...float64) error {
	refused := value(0)
	if err != nil {
		var malformed *wire.Error
		if !errors.As(err, &malformed) {
			return fmt.Errorf("%s: %w", name, err)
		}
		refused = 1
	}
	mean := 0.0
	for _, s := range t.seconds {
		mean += s / float64(len(t.seconds))
	}
	t.worst = max(t.worst, seconds/mean)
	values := []value{value(seconds), value(seconds / mean)}
	for _, v := range more {
		values = append(values, value(v))
	}
	t.Rows = append(t.Rows, row{name, append(values, refused)})
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

// fastest returns the least processor time that f takes.
func fastest(rounds int, f func() error) (seconds float64, err error) {
	var all []float64
	for range max(1, rounds/2) {
		s, _, failed := timed(func() error { err = f(); return nil })
		if failed != nil {
			return 0, failed
		}
		all = append(all, s)
	}
	return slices.Min(all), err
}

// evaluateHostile returns how long the analysis of a request takes with empty caches,
// and how many steps it counts for each byte.
func evaluateHostile(ctx context.Context, rounds int, signal wire.Signal, body []byte, at time.Time) (seconds, steps float64, err error) {
	now := uint64(at.UnixNano())
	in := rules.Input{
		OrganizationID: organization, Arrival: now, Latest: now + uint64(time.Minute),
		Start: now - uint64(assay.DefaultWindow), MetricStart: now - uint64(assay.MetricWindow),
	}
	quota := engine.NewQuota(engine.QuotaConfig{Store: emptyStore{}})
	if err := quota.Load(ctx, organization); err != nil {
		return 0, 0, err
	}
	filter := delta.NewFilter(21)
	seconds, err = fastest(rounds, func() error {
		e := rules.NewEvaluator(rules.Config{Filter: filter, Quota: quota})
		var b rules.Batch
		defer func() {
			quota.Release(organization, b.Admitted)
			steps = float64(e.Steps()) / float64(len(body))
		}()
		if err := e.Evaluate(ctx, signal, body, in, &b); err != nil {
			return err
		}
		b.MergeInto(new(delta.Delta))
		return nil
	})
	return seconds, steps, err
}

// transcodeHostile returns how long turning a document into protobuf takes.
func transcodeHostile(rounds int, signal wire.Signal, doc []byte) (float64, error) {
	out := make([]byte, 0, len(doc))
	return fastest(rounds, func() error {
		_, err := otlpjson.Transcode(context.Background(), signal, out[:0], doc, hostileBytes)
		if errors.Is(err, otlpjson.ErrTooLarge) {
			return &wire.Error{Reason: err.Error()}
		}
		return err
	})
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
