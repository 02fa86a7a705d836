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
// size: the analysis of one request with empty caches, until its facts are merged or
// it is refused.
func runHostile(ctx context.Context, s *settings, emit func(*table) error) error {
	recordings, err := readRecordings(s.recordings)
	if err != nil {
		return err
	}
	var ordinary, ordinaryJSON float64 // seconds, the mean of the signals
	binary := &table{Title: fmt.Sprintf("requests of %d MiB, ordinary telemetry = 1", hostileBytes>>20), Columns: []string{"s", "x ordinary", "refused"}}
	text := &table{Title: fmt.Sprintf("OTLP/JSON of %d MiB to protobuf, ordinary telemetry = 1", hostileBytes>>20), Columns: []string{"s", "x ordinary", "refused"}}
	for _, signal := range wiretest.Signals {
		w, err := newWorkload(recordings, signal, engineShapes[0], hostileBytes)
		if err != nil {
			return err
		}
		w.renew(passTime)
		var body []byte
		for _, r := range w.requests {
			if len(body) < hostileBytes {
				body = append(body, r.body...)
			}
		}
		seconds, err := evaluateHostile(ctx, s.rounds, signal, body, start)
		if err != nil {
			return fmt.Errorf("ordinary %s: %w", signal, err)
		}
		ordinary += seconds / 3
		binary.Rows = append(binary.Rows, row{"ordinary " + signal.String(), []value{value(seconds), none, 0}})
		var some []byte
		for _, r := range w.requests {
			if len(some) < 1<<20 {
				some = append(some, r.body...)
			}
		}
		doc, err := hostileJSON(signal, body[:0], some)
		if err != nil {
			return err
		}
		if seconds, err = transcodeHostile(s.rounds, signal, doc); err != nil {
			return fmt.Errorf("ordinary %s: %w", signal, err)
		}
		ordinaryJSON += seconds / 3
		text.Rows = append(text.Rows, row{"ordinary " + signal.String(), []value{value(seconds), none, 0}})
	}
	worst, worstJSON := 0.0, 0.0
	add := func(t *table, name string, seconds, ordinary float64, worst *float64, err error) error {
		refused := value(0)
		if err != nil {
			var malformed *wire.Error
			if !errors.As(err, &malformed) {
				return fmt.Errorf("%s: %w", name, err)
			}
			refused = 1
		}
		*worst = max(*worst, seconds/ordinary)
		t.Rows = append(t.Rows, row{name, []value{value(seconds), value(seconds / ordinary), refused}})
		return nil
	}
	for _, h := range wiretest.Shapes() {
		if err := ctx.Err(); err != nil {
			return err
		}
		h.At = start
		body := h.Request(hostileBytes)
		seconds, err := evaluateHostile(ctx, s.rounds, h.Signal, body, start)
		if err := add(binary, h.Name, seconds, ordinary, &worst, err); err != nil {
			return err
		}
		doc, err := hostileJSON(h.Signal, body[:0], h.Request(hostileObjects))
		if err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		seconds, err = transcodeHostile(s.rounds, h.Signal, doc)
		if err := add(text, h.Name, seconds, ordinaryJSON, &worstJSON, err); err != nil {
			return err
		}
	}
	for _, d := range wiretest.Documents() {
		doc := d.Request(hostileBytes)
		seconds, err := transcodeHostile(s.rounds, d.Signal, doc)
		if err := add(text, d.Name, seconds, ordinaryJSON, &worstJSON, err); err != nil {
			return err
		}
	}
	binary.Targets = []target{atMost("the worst, ordinary telemetry = 1,", hostileTarget, worst)}
	text.Targets = []target{atMost("the worst, ordinary telemetry = 1,", hostileTarget, worstJSON)}
	if err := emit(binary); err != nil {
		return err
	}
	return emit(text)
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

// evaluateHostile returns how long the analysis of a request takes with empty caches.
func evaluateHostile(ctx context.Context, rounds int, signal wire.Signal, body []byte, at time.Time) (float64, error) {
	now := uint64(at.UnixNano())
	in := rules.Input{
		OrganizationID: organization, Arrival: now, Latest: now + uint64(time.Minute),
		Start: now - uint64(assay.DefaultWindow), MetricStart: now - uint64(assay.MetricWindow),
	}
	quota := engine.NewQuota(engine.QuotaConfig{Store: emptyStore{}})
	if err := quota.Load(ctx, organization); err != nil {
		return 0, err
	}
	filter := delta.NewFilter(21)
	return fastest(rounds, func() error {
		e := rules.NewEvaluator(rules.Config{Filter: filter, Quota: quota})
		var b rules.Batch
		defer func() { quota.Release(organization, b.Admitted) }()
		if err := e.Evaluate(ctx, signal, body, in, &b); err != nil {
			return err
		}
		b.MergeInto(new(delta.Delta))
		return nil
	})
}

// transcodeHostile returns how long turning a document into protobuf takes.
func transcodeHostile(rounds int, signal wire.Signal, doc []byte) (float64, error) {
	out := make([]byte, 0, len(doc))
	return fastest(rounds, func() error {
		_, err := otlpjson.Transcode(context.Background(), signal, out[:0], doc)
		return err
	})
}

// hostileJSON returns an OTLP/JSON request of about hostileBytes that repeats the
// entries of a protobuf one. It uses the memory of dst.
func hostileJSON(signal wire.Signal, dst, body []byte) ([]byte, error) {
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
	dst = append(dst, doc[:open+1]...)
	for first := true; first || len(dst)+len(entries) < hostileBytes; first = false {
		if !first {
			dst = append(dst, ',')
		}
		dst = append(dst, entries...)
	}
	return append(dst, doc[end:]...), nil
}
