// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"assay"
	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/rules"
	"assay/internal/wire"
	"assay/internal/wire/otlpjson"
	"assay/internal/wire/wiretest"
)

const (
	// hostileBytes is the size of a request: the maximum that a server accepts by default.
	hostileBytes    = 64 << 20
	hostileTarget   = 5
	hostileRepeated = 3 // the most expensive requests, timed in more rounds
	// How a server splits a request, and the limits of each part.
	hostileEntries, hostileParts             = 64, 512
	hostileFacts, hostileHours, hostileSpans = 1 << 16, 2048, 1 << 16
	// hostileObjects is the maximum size of protobuf that is converted to JSON by pdata,
	// whose objects take a hundred times the memory.
	hostileObjects = 4 << 20
)

// runHostile compares requests of hostile shapes with ordinary telemetry of the same
// size: the analysis of one request with empty caches until its facts are merged or it is
// rejected, and the conversion of OTLP/JSON to protobuf. Every round times both sides; the
// most expensive requests have several rounds.
//
// The content of a hostile request is new. So the analysis is also compared with first
// exports: the first requests of the senders of the recordings, under the names of many services.
func runHostile(ctx context.Context, s *settings, emit func(*table) error) error {
	recordings, err := readRecordings(s.recordings)
	if err != nil {
		return err
	}
	binary := hostileBench{once: evaluateOnce, table: table{
		Title:   fmt.Sprintf("analysis of one request of %d MiB, the mean of ordinary telemetry = 1", hostileBytes>>20),
		Columns: []string{"ns/B", "x ordinary", "x first export", "steps/B", "refused"},
	}}
	text := hostileBench{once: transcodeOnce, table: table{
		Title:   fmt.Sprintf("%d MiB of OTLP/JSON to protobuf, the mean of ordinary telemetry = 1", hostileBytes>>20),
		Columns: []string{"ns/B", "x ordinary", "refused"},
	}}
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
		first, err := firstExports(signal, hostileBytes)
		if err != nil {
			return err
		}
		binary.ordinary = append(binary.ordinary, made("ordinary "+signal.String(), signal, joined(w, hostileBytes)))
		binary.first = append(binary.first, made("first exports of "+signal.String(), signal, first))
		text.ordinary = append(text.ordinary, made("ordinary "+signal.String(), signal, doc))
	}
	binary.inputs, text.inputs = slices.Concat(binary.ordinary, binary.first), slices.Clone(text.ordinary)
	for _, c := range wiretest.Colds() {
		binary.inputs = append(binary.inputs, hostileShape{c.Name, c.Signal, false, func() ([]byte, error) { return c.Request(start, hostileBytes), nil }})
	}
	for _, h := range wiretest.Shapes() {
		h.At = start
		binary.inputs = append(binary.inputs, hostileShape{h.Name, h.Signal, true, func() ([]byte, error) { return h.Request(hostileBytes), nil }})
		text.inputs = append(text.inputs, hostileShape{h.Name, h.Signal, true, func() ([]byte, error) {
			return hostileJSON(h.Signal, h.Request(hostileObjects))
		}})
	}
	for _, d := range wiretest.Documents() {
		text.inputs = append(text.inputs, hostileShape{d.Name, d.Signal, true, func() ([]byte, error) { return d.Request(hostileBytes), nil }})
	}
	for _, b := range []*hostileBench{&binary, &text} {
		if err := b.run(ctx, s); err != nil {
			return err
		}
		b.Notes = []string{fmt.Sprintf("the %d most expensive hostile requests: medians of %d rounds; the others: one round", hostileRepeated, max(1, s.rounds/2))}
		b.Targets = []target{atMost("the worst, ordinary telemetry = 1,", hostileTarget, b.worst)}
		if b.first != nil {
			b.Targets = append(b.Targets, atMost("the worst, first exports = 1,", hostileTarget, b.worstFirst))
		}
		if err := emit(&b.table); err != nil {
			return err
		}
	}
	return nil
}

// firstExports returns a request of about size bytes with the first exports of the senders of the recordings
// sent, each time under the name of another service.
func firstExports(signal wire.Signal, size int) (body []byte, err error) {
	var recorded []wiretest.Request
	for _, r := range wiretest.Real() {
		if r.Signal == signal {
			recorded = append(recorded, r)
		}
	}
	for i := 0; len(body) < size; i++ {
		renamed, err := renamedRequest(signal, recorded[i%len(recorded)].Body, fmt.Sprintf("-%d", i))
		if err != nil {
			return nil, err
		}
		body = append(body, renamed...)
	}
	return body, nil
}

// renamedRequest adds a suffix to the names and instances of services.
func renamedRequest(signal wire.Signal, body []byte, suffix string) ([]byte, error) {
	return rewritten(signal, body, true, func(m proto.Message) bool {
		r, ok := m.(*resourcepb.Resource)
		for _, kv := range r.GetAttributes() {
			switch text, isText := kv.Value.GetValue().(*commonpb.AnyValue_StringValue); kv.Key {
			case "service.name", "service.instance.id", "host.name":
				if isText {
					text.StringValue += suffix
				}
			}
		}
		return !ok
	})
}

// hostileShape makes a request.
type hostileShape struct {
	name    string
	signal  wire.Signal
	hostile bool
	make    func() (body []byte, err error)
}

// made returns the shape of an ordinary request.
func made(name string, signal wire.Signal, body []byte) hostileShape {
	return hostileShape{name, signal, false, func() ([]byte, error) { return body, nil }}
}

// hostileBench times requests and ordinary ones in turn.
type hostileBench struct {
	table
	once              func(ctx context.Context, signal wire.Signal, body []byte) (run func() error, steps func() uint64, err error)
	ordinary, first   []hostileShape
	inputs            []hostileShape
	worst, worstFirst float64
}

// hostileResult is the result of one request.
type hostileResult struct {
	seconds, ordinary, first []float64 // by round
	steps                    float64
	refused                  bool
}

// run times all requests and fills the table.
func (b *hostileBench) run(ctx context.Context, s *settings) error {
	results := make([]hostileResult, len(b.inputs))
	var order []int // hostile requests
	for i, in := range b.inputs {
		if err := b.round(ctx, in, &results[i]); err != nil {
			return err
		}
		if in.hostile {
			order = append(order, i)
		}
		fmt.Fprintf(s.log, "%s: %.1f ns/B\n", in.name, median(results[i].seconds)*1e9)
	}
	slices.SortFunc(order, func(x, y int) int {
		return cmp.Compare(paired(results[y].seconds, results[y].ordinary).median(), paired(results[x].seconds, results[x].ordinary).median())
	})
	for _, i := range order[:min(hostileRepeated, len(order))] {
		for range max(1, s.rounds/2) - 1 {
			if err := b.round(ctx, b.inputs[i], &results[i]); err != nil {
				return err
			}
		}
	}
	for i, in := range b.inputs {
		b.add(in, &results[i])
	}
	return nil
}

// round times a request and those that it is compared with.
func (b *hostileBench) round(ctx context.Context, shape hostileShape, r *hostileResult) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ordinary, err := b.mean(ctx, b.ordinary)
	if err != nil {
		return err
	}
	first, err := b.mean(ctx, b.first)
	if err != nil {
		return err
	}
	seconds, steps, refused, err := b.time(ctx, shape)
	if err != nil {
		return err
	}
	r.seconds, r.ordinary, r.first = append(r.seconds, seconds), append(r.ordinary, ordinary), append(r.first, first)
	r.steps, r.refused = steps, refused
	return nil
}

// mean returns the mean time of requests, in seconds per byte.
func (b *hostileBench) mean(ctx context.Context, inputs []hostileShape) (mean float64, err error) {
	for _, in := range inputs {
		seconds, _, _, err := b.time(ctx, in)
		if err != nil {
			return 0, err
		}
		mean += seconds / float64(len(inputs))
	}
	return mean, nil
}

// time returns the processor time and the steps of one run per byte, and whether the request was rejected.
func (b *hostileBench) time(ctx context.Context, in hostileShape) (seconds, steps float64, refused bool, err error) {
	body, err := in.make()
	if err != nil {
		return 0, 0, false, fmt.Errorf("%s: %w", in.name, err)
	}
	run, count, err := b.once(ctx, in.signal, body)
	if err != nil {
		return 0, 0, false, fmt.Errorf("%s: %w", in.name, err)
	}
	seconds, _, err = timed(func() error {
		err := run()
		if _, malformed := errors.AsType[*wire.Error](err); malformed || errors.Is(err, otlpjson.ErrTooLarge) {
			refused = true
			return nil
		}
		return err
	})
	if err != nil {
		return 0, 0, false, fmt.Errorf("%s: %w", in.name, err)
	}
	size := float64(len(body))
	return seconds / size, float64(count()) / size, refused, nil
}

// add adds a row.
func (b *hostileBench) add(in hostileShape, r *hostileResult) {
	refused := value(0)
	if r.refused {
		refused = 1
	}
	ordinary := paired(r.seconds, r.ordinary).median()
	values := []value{value(median(r.seconds) * 1e9), value(ordinary)}
	if b.first != nil {
		first := paired(r.seconds, r.first).median()
		values = append(values, value(first), value(r.steps))
		if in.hostile {
			b.worstFirst = max(b.worstFirst, first)
		}
	}
	if in.hostile {
		b.worst = max(b.worst, ordinary)
	}
	b.Rows = append(b.Rows, row{in.name, append(values, refused)})
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

// evaluateOnce prepares the analysis of a request, in parts as in a server, with empty
// caches and a filter full of other facts.
func evaluateOnce(ctx context.Context, signal wire.Signal, body []byte) (run func() error, steps func() uint64, err error) {
	now := uint64(start.UnixNano())
	in := rules.Input{
		OrganizationID: organization, Arrival: now, Latest: now + uint64(time.Minute),
		Start: now - uint64(assay.DefaultWindow), MetricStart: now - uint64(assay.MetricWindow),
		Budget: rules.NewBudget(len(body)),
	}
	quota := engine.NewQuota(engine.QuotaConfig{Store: emptyStore{}})
	if err := quota.Load(ctx, organization); err != nil {
		return nil, nil, err
	}
	in.HashKey = quota.HashKey(organization)
	filter := delta.NewFilter(21)
	for i := range uint64(4 << 20) {
		filter.Add(delta.Mix(i, 1))
	}
	e := rules.NewEvaluator(rules.Config{
		Filter: filter, Quota: quota, MaxFacts: hostileFacts, MaxHours: hostileHours, MaxSpans: hostileSpans,
	})
	var b rules.Batch
	total := uint64(0)
	return func() error {
		parts, err := wire.Split(body, hostileEntries, hostileParts)
		if err != nil {
			return err
		}
		if len(parts) > 1 {
			if err := wire.ValidateContext(ctx, signal, body); err != nil {
				return err
			}
		}
		for _, part := range parts {
			b.Reset()
			err := e.Evaluate(ctx, signal, part, in, &b)
			total += e.Steps()
			if err != nil {
				return err
			}
			b.MergeInto(new(delta.Delta))
		}
		return nil
	}, func() uint64 { return total }, nil
}

// transcodeOnce prepares the conversion of a document to protobuf.
func transcodeOnce(ctx context.Context, signal wire.Signal, body []byte) (run func() error, steps func() uint64, err error) {
	out := make([]byte, 0, len(body))
	return func() error {
		_, err := otlpjson.Transcode(ctx, signal, out, body, hostileBytes)
		return err
	}, func() uint64 { return 0 }, nil
}

// hostileJSON returns an OTLP/JSON request of about hostileBytes that repeats the
// entries of a protobuf one.
func hostileJSON(signal wire.Signal, body []byte) ([]byte, error) {
	decoded := wiretest.NewPdata(signal)
	if err := decoded.UnmarshalProto(body); err != nil {
		return nil, err
	}
	doc, err := decoded.MarshalJSON()
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
