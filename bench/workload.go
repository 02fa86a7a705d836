// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"assay/internal/wire"
	"assay/internal/wire/otlpjson"
	"assay/internal/wire/wiretest"
)

// recording holds the requests of one file by signal, in protobuf.
type recording map[wire.Signal][][]byte

// readRecordings reads all recordings in a directory.
func readRecordings(dir string) ([]recording, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl.gz"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no recordings in %s", dir)
	}
	var all []recording
	for _, name := range files {
		r, err := readRecording(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, r)
	}
	return all, nil
}

func readRecording(name string) (recording, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	r := make(recording)
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		signals, err := otlpjson.Detect(lines.Bytes())
		if err != nil {
			return nil, err
		}
		for _, signal := range signals {
			body, err := otlpjson.Transcode(context.Background(), signal, nil, lines.Bytes(), 0)
			if err != nil {
				return nil, err
			}
			r[signal] = append(r[signal], body)
		}
	}
	return r, lines.Err()
}

// shape describes how requests are generated from the recordings.
type shape struct {
	name    string
	records int  // records of a request; 0: as recorded
	unique  bool // every string and integer attribute and every body is new
	pdata   bool // fields in the order of pdata instead of the SDKs'
}

// identities are the attributes of the recordings with values that identify one object,
// amount or moment. A workload has other values in every trace, and the same within a
// trace.
var identities = map[string]bool{
	"url.path": true, "url.full": true, "url.query": true, "network.peer.port": true, "network.local.port": true,
	"http.request.body.size": true, "http.response.body.size": true, "lamp.id": true, "shelf": true,
	"orderId": true, "productId": true, "amount": true, "count": true, "timestamp": true,
	"exception.message": true, "exception.stacktrace": true, "stack": true,
}

func (s shape) varies(key string) bool { return s.unique || identities[key] }

// workload is a set of requests that can be renewed.
type workload struct {
	shape    shape
	signal   wire.Signal
	requests []request
	bytes    int
	records  int

	share share
	rng   *rand.Rand
}

// request is an encoded request with its sites.
type request struct {
	body    []byte
	sites   []site
	records int
	group   int // requests of a group belong together
}

// start is the start of a workload's simulated time.
var start = time.Date(2026, time.November, 21, 9, 30, 0, 0, time.UTC)

// newWorkload repeats the recordings of a signal until they have at least size bytes.
// Each repetition varies independently.
func newWorkload(recordings []recording, signal wire.Signal, s shape, size int) (*workload, error) {
	w := &workload{shape: s, signal: signal, share: newShare(), rng: rand.New(rand.NewPCG(1, uint64(signal)))}
	var bodies [][]byte
	for _, r := range recordings {
		encoded, err := s.encode(signal, r[signal])
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, encoded...)
	}
	if s.records > 0 {
		var err error
		if bodies, err = rebatch(signal, bodies, s.records); err != nil {
			return nil, err
		}
	}
	var once []request
	for i, body := range bodies {
		sites, err := s.find(signal, body, i, &w.share)
		if err != nil {
			return nil, err
		}
		n, err := countRecords(signal, body)
		if err != nil {
			return nil, err
		}
		once = append(once, request{body: body, sites: sites, records: n})
	}
	if len(once) == 0 {
		return nil, fmt.Errorf("the recordings hold no %s", signal)
	}
	for group := 0; w.bytes < size; group++ {
		for _, r := range once {
			r.body, r.group = bytes.Clone(r.body), group
			w.requests = append(w.requests, r)
			w.bytes += len(r.body)
			w.records += r.records
		}
	}
	return w, nil
}

// renew rewrites all requests and moves their times forward.
func (w *workload) renew(forward time.Duration) {
	var v *variation
	group := -1
	for _, r := range w.requests {
		if r.group != group {
			group = r.group
			v = &variation{seed: w.rng.Uint64(), shift: uint64(forward)}
		}
		v.apply(r.body, r.sites)
	}
}

// encode returns the requests of one recording, with widened values and their fields in
// the shape's order. It moves all times so that the newest is start.
func (s shape) encode(signal wire.Signal, recorded [][]byte) ([][]byte, error) {
	var bodies [][]byte
	var times [][]byte
	share := newShare()
	for _, body := range recorded {
		body, err := s.widen(signal, body)
		if err != nil {
			return nil, err
		}
		sites, err := s.find(signal, body, 0, &share)
		if err != nil {
			return nil, err
		}
		for _, s := range sites {
			if t := body[s.off : s.off+s.n]; s.kind == siteTime && binary.LittleEndian.Uint64(t) != 0 {
				times = append(times, t)
			}
		}
		bodies = append(bodies, body)
	}
	newest := uint64(0)
	for _, t := range times {
		newest = max(newest, binary.LittleEndian.Uint64(t))
	}
	for _, t := range times {
		binary.LittleEndian.PutUint64(t, binary.LittleEndian.Uint64(t)-newest+uint64(start.UnixNano()))
	}
	return bodies, nil
}

// widen lengthens the values of records that change, so that they can be renewed many times: recorded ids have a digit or
// two.
func (s shape) widen(signal wire.Signal, body []byte) ([]byte, error) {
	return rewritten(signal, body, s.pdata, func(m proto.Message) bool {
		switch x := m.(type) {
		case *resourcepb.Resource, *commonpb.InstrumentationScope, *metricspb.Exemplar:
			return false
		case *commonpb.KeyValue:
			s.widenAttribute(x)
			return false
		case *logspb.ScopeLogs:
			for i, r := range x.LogRecords {
				if text, ok := r.Body.GetValue().(*commonpb.AnyValue_StringValue); ok && (s.unique || i%2 == 0) {
					text.StringValue += " (request 00000, 000 ms)" // half of all log messages have ids and durations
				}
			}
		}
		return true
	})
}

// rewritten returns a request whose messages visit has changed; see walk. The fields are in the order of pdata or else of
// the SDKs.
func rewritten(signal wire.Signal, body []byte, pdata bool, visit func(proto.Message) bool) ([]byte, error) {
	m := wiretest.NewOfficial(signal)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, err
	}
	walk(m.ProtoReflect(), visit)
	body, err := (proto.MarshalOptions{Deterministic: true}).Marshal(m)
	if err != nil || !pdata {
		return body, err
	}
	decoded := wiretest.NewPdata(signal)
	if err := decoded.UnmarshalProto(body); err != nil {
		return nil, err
	}
	return decoded.MarshalProto()
}

// walk calls visit for a message, and if visit returns true, for the messages in it.
func walk(m protoreflect.Message, visit func(proto.Message) bool) {
	if !visit(m.Interface()) {
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				walk(v.List().Get(i).Message(), visit)
			}
		default:
			walk(v.Message(), visit)
		}
		return true
	})
}

func (s shape) widenAttribute(kv *commonpb.KeyValue) {
	if !s.varies(kv.Key) {
		return
	}
	switch v := kv.Value.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		v.StringValue = s.widenText(v.StringValue)
	case *commonpb.AnyValue_IntValue:
		if s.unique {
			v.IntValue |= 1 << 40
		}
	}
}

// widenText extends the last number in a text to eight digits. A text without a number
// stays unchanged, unless all texts must be unique.
func (s shape) widenText(text string) string {
	end := strings.LastIndexAny(text, "0123456789") + 1
	switch {
	case len(text) == uuidSize && text[8] == '-':
		return text
	case end == 0 && !s.unique:
		return text
	case end == 0:
		return text + " 00000000"
	}
	from := end
	for from > 0 && text[from-1] >= '0' && text[from-1] <= '9' {
		from--
	}
	return text[:from] + strings.Repeat("0", max(0, freshDigits-(end-from))) + text[from:]
}

// rebatch makes requests of exactly n records and drops the rest. It repeats a recording
// that is too small for one request. The records of a metrics request are its metrics
// here.
func rebatch(signal wire.Signal, bodies [][]byte, n int) (full [][]byte, err error) {
	batch, records := wiretest.NewOfficial(signal), 0
	for found := true; found && len(full) == 0; {
		found = false
		for _, body := range bodies {
			m := wiretest.NewOfficial(signal)
			if err := proto.Unmarshal(body, m); err != nil {
				return nil, err
			}
			for entry := range messages(m.ProtoReflect(), 1) {
				for scope := range messages(entry, 2) {
					for record := range messages(scope, 2) {
						found = true
						to := group(group(batch.ProtoReflect(), 1, entry), 2, scope)
						to.Mutable(fieldOf(to, 2)).List().Append(protoreflect.ValueOfMessage(record))
						if records++; records < n {
							continue
						}
						if body, err = (proto.MarshalOptions{Deterministic: true}).Marshal(batch); err != nil {
							return nil, err
						}
						full = append(full, body)
						batch, records = wiretest.NewOfficial(signal), 0
					}
				}
			}
		}
	}
	return full, nil
}

func fieldOf(m protoreflect.Message, number protoreflect.FieldNumber) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByNumber(number)
}

// messages returns the messages in a list of m.
func messages(m protoreflect.Message, number protoreflect.FieldNumber) iter.Seq[protoreflect.Message] {
	return func(yield func(protoreflect.Message) bool) {
		list := m.Get(fieldOf(m, number)).List()
		for i := 0; i < list.Len() && yield(list.Get(i).Message()); i++ {
		}
	}
}

// group returns the last message in a list of to. If that is of another resource or scope than like, group adds one without
// records.
func group(to protoreflect.Message, number protoreflect.FieldNumber, like protoreflect.Message) protoreflect.Message {
	list := to.Mutable(fieldOf(to, number)).List()
	if n := list.Len(); n > 0 {
		last := list.Get(n - 1).Message()
		if own := fieldOf(last, 1); last.Get(own).Equal(like.Get(own)) {
			return last
		}
	}
	m := list.AppendMutable().Message()
	like.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Number() != 2 {
			m.Set(f, v)
		}
		return true
	})
	return m
}
