// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/protobuf/proto"

	"assay/internal/demo"
	"assay/internal/wire"
)

// LoadConfig configures a Load.
type LoadConfig struct {
	Seed          uint64
	Organizations []string      // each has a complete set of services
	Rounds        int           // rounds in which each service sends telemetry
	Newest        time.Time     // timestamp of the last round
	Interval      time.Duration // time between the timestamps of two rounds
	Halves        bool          // add traces whose halves are in two rounds
}

// Load is telemetry of a set of services, some instrumented well and some badly, with known totals. It is
// immutable.
type Load struct {
	Config  LoadConfig
	Rounds  [][]*Request
	Records map[Series]uint64 // spans, data points and log records
	Bytes   map[Series]uint64 // bytes of request bodies, by organization and signal; Service is empty
}

// Request is one OTLP request. Every request of a load is unique.
type Request struct {
	Organization string
	Signal       wire.Signal
	GRPC         bool
	Shard        int  // shard of its trace ids, below Shards; -1 for a request without spans
	Repeat       bool // repeat the request after it was acknowledged
	Body         []byte
	Records      map[string]uint64 // spans, data points or log records by service
	Half         pcommon.TraceID   // trace of which the request holds one half; zero for other requests
}

// Series identifies a total.
type Series struct {
	Organization, Service string
	Signal                wire.Signal
}

// Shards is the number of shards of trace ids. A replica receives all spans of its shards, as from the
// Collector's load-balancing exporter.
const Shards = 12

// repeatEvery is the mean number of requests of which one is repeated after its acknowledgement.
const repeatEvery = 16

// NewLoad generates a load.
func NewLoad(cfg LoadConfig) (*Load, error) {
	l := &Load{Config: cfg, Rounds: make([][]*Request, cfg.Rounds), Records: make(map[Series]uint64), Bytes: make(map[Series]uint64)}
	rng := rand.New(rand.NewPCG(cfg.Seed, 1))
	for n, organization := range cfg.Organizations {
		m := maker{load: l, organization: organization, rng: rng}
		scripts := demo.Scripts(cfg.Seed + 1000*uint64(n))
		for round := range l.Rounds {
			m.round = round
			at := cfg.Newest.Add(-cfg.Interval * time.Duration(cfg.Rounds-1-round))
			for i, s := range scripts {
				m.grpc = i%3 == 0
				if round == 0 {
					m.add(s.Service().Name, s.Past(at))
				}
				m.add(s.Service().Name, s.Round(at))
			}
			if cfg.Halves {
				m.halves(at)
			}
		}
		if m.err != nil {
			return nil, fmt.Errorf("encode the load: %w", m.err)
		}
	}
	return l, nil
}

// Requests returns the number of requests of the load.
func (l *Load) Requests() (n int) {
	for _, r := range l.Rounds {
		n += len(r)
	}
	return n
}

// maker generates the requests of one organization.
type maker struct {
	load         *Load
	organization string
	rng          *rand.Rand
	round        int
	grpc         bool
	late         []half // second halves for the next round
	half         pcommon.TraceID
	err          error // first error
}

// add adds the requests of one service in one round.
func (m *maker) add(service string, t demo.Telemetry) {
	for shard, traces := range byShard(convert(m, ptraceotlp.NewExportRequest(), t.Traces).Traces()) {
		if n := traces.SpanCount(); n > 0 {
			m.request(wire.Traces, shard, map[string]uint64{service: uint64(n)}, ptraceotlp.NewExportRequestFromTraces(traces))
		}
	}
	metrics := convert(m, pmetricotlp.NewExportRequest(), t.Metrics)
	if n := metrics.Metrics().DataPointCount(); n > 0 {
		m.request(wire.Metrics, -1, map[string]uint64{service: uint64(n)}, metrics)
	}
	logs := convert(m, plogotlp.NewExportRequest(), t.Logs)
	if n := logs.Logs().LogRecordCount(); n > 0 {
		m.request(wire.Logs, -1, map[string]uint64{service: uint64(n)}, logs)
	}
}

// convert sets a request of pdata to a message and returns it.
func convert[R interface{ UnmarshalProto([]byte) error }](m *maker, to R, from proto.Message) R {
	body, err := proto.Marshal(from)
	if err == nil {
		err = to.UnmarshalProto(body)
	}
	m.fail(err)
	return to
}

// fail records the first error.
func (m *maker) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *maker) request(signal wire.Signal, shard int, records map[string]uint64, message interface{ MarshalProto() ([]byte, error) }) {
	body, err := message.MarshalProto()
	if err != nil {
		m.fail(err)
		return
	}
	m.load.Rounds[m.round] = append(m.load.Rounds[m.round], &Request{
		Organization: m.organization, Signal: signal, GRPC: m.grpc, Shard: shard, Repeat: m.rng.IntN(repeatEvery) == 0,
		Body: body, Records: records, Half: m.half,
	})
	for service, n := range records {
		m.load.Records[Series{m.organization, service, signal}] += n
	}
	m.load.Bytes[Series{m.organization, "", signal}] += uint64(len(body))
}

// byShard splits spans by the shards of their trace ids.
func byShard(all ptrace.Traces) (parts [Shards]ptrace.Traces) {
	for i := range parts {
		parts[i] = ptrace.NewTraces()
	}
	for _, rs := range all.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			lists := make(map[int]ptrace.SpanSlice)
			for _, span := range ss.Spans().All() {
				shard := shardOf(span.TraceID())
				if _, ok := lists[shard]; !ok {
					to := parts[shard].ResourceSpans().AppendEmpty()
					rs.Resource().CopyTo(to.Resource())
					scope := to.ScopeSpans().AppendEmpty()
					ss.Scope().CopyTo(scope.Scope())
					lists[shard] = scope.Spans()
				}
				span.CopyTo(lists[shard].AppendEmpty())
			}
		}
	}
	return parts
}

func shardOf(id pcommon.TraceID) int { return int(id[15]) % Shards }

// The services of traces that are split into two requests.
const (
	frontService = "fulfilment"
	backService  = "warehouse"
)

// half is the state that the second half of a trace needs of the first.
type half struct {
	trace        pcommon.TraceID
	parent, work pcommon.SpanID // work is the topmost span of the first half, parent is that span's parent
	at           time.Time
}

// halfSpans is the number of internal spans of the back service in each half of a trace. One half is within
// the limit of SPA-001 (ten), both halves together exceed it.
const halfSpans = 6

// halves adds the first half of a new trace, and the second half of the previous round's trace. The first
// half has the back service's server span, whose parent span is in the second half. A replica that evaluates
// one half alone finds an orphan span (SPA-002), and does not find too many internal spans (SPA-001).
func (m *maker) halves(at time.Time) {
	late := m.late
	m.late = nil
	m.grpc = m.round%2 == 0
	for _, h := range late {
		t := ptrace.NewTraces()
		front := m.spans(t, frontService)
		root := m.spanID()
		m.span(front, h, root, pcommon.SpanID{}, "POST /shipments", ptrace.SpanKindServer)
		m.span(front, h, h.parent, root, "POST", ptrace.SpanKindClient)
		m.work(m.spans(t, backService), h)
		m.half = h.trace
		m.request(wire.Traces, shardOf(h.trace), map[string]uint64{frontService: 2, backService: halfSpans}, ptraceotlp.NewExportRequestFromTraces(t))
	}
	if m.round == len(m.load.Rounds)-1 {
		m.half = pcommon.TraceID{}
		return
	}
	h := half{parent: m.spanID(), work: m.spanID(), at: at}
	binary.BigEndian.PutUint64(h.trace[:8], m.rng.Uint64()|1)
	binary.BigEndian.PutUint64(h.trace[8:], m.rng.Uint64())
	t := ptrace.NewTraces()
	back := m.spans(t, backService)
	m.span(back, h, h.work, h.parent, "POST /picks", ptrace.SpanKindServer)
	m.work(back, h)
	m.half = h.trace
	m.request(wire.Traces, shardOf(h.trace), map[string]uint64{backService: 1 + halfSpans}, ptraceotlp.NewExportRequestFromTraces(t))
	m.half = pcommon.TraceID{}
	m.late = append(m.late, h)
}

func (m *maker) spanID() (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], m.rng.Uint64()|1)
	return id
}

// spans returns an empty list for the spans of a service.
func (m *maker) spans(t ptrace.Traces, service string) ptrace.SpanSlice {
	rs := t.ResourceSpans().AppendEmpty()
	for _, a := range [][2]string{
		{"service.name", service},
		{"service.namespace", "lampshop"},
		{"service.version", "1.0.0"},
		{"service.instance.id", service + "-0"},
		{"deployment.environment.name", "production"},
	} {
		rs.Resource().Attributes().PutStr(a[0], a[1])
	}
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("com.example.lampshop." + service)
	return ss.Spans()
}

// work adds the internal spans of the back service.
func (m *maker) work(list ptrace.SpanSlice, h half) {
	for range halfSpans {
		m.span(list, h, m.spanID(), h.work, "pick", ptrace.SpanKindInternal)
	}
}

func (m *maker) span(list ptrace.SpanSlice, h half, id, parent pcommon.SpanID, name string, kind ptrace.SpanKind) {
	s := list.AppendEmpty()
	s.SetTraceID(h.trace)
	s.SetSpanID(id)
	s.SetParentSpanID(parent)
	s.SetName(name)
	s.SetKind(kind)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(h.at.Add(-50 * time.Millisecond)))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(h.at))
}
