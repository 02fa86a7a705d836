// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/trace"
	"assay/internal/wire"
)

// Quota limits what one organization can make the store keep. Implementations may
// be used concurrently.
type Quota interface {
	// AdmitService tells whether a service may be kept. isNew means that it takes a
	// place which ReleaseService gives back if the request is not committed.
	AdmitService(organizationID string, k assay.ServiceKey) (ok, isNew bool)
	// AdmitMetricName is the same for a metric name of a service, by the Low of its
	// stable hash.
	AdmitMetricName(organizationID string, k assay.ServiceKey, name uint64) (ok, isNew bool)
	// AdmitMetricDetail is the same for what the rules compare of a service's
	// metrics: a unit or a list of bounds of a name, an attribute key of a name.
	// Details past the limit are not compared.
	AdmitMetricDetail(organizationID string, k assay.ServiceKey, detail uint64) (ok, isNew bool)
	// AdmitInstance is the same for an instance of a service on a workload in an hour
	// (since 1970), by a hash of all of them that is not 0. Instances past the limit are
	// not compared.
	AdmitInstance(organizationID string, k assay.ServiceKey, hour, instance uint64) (ok, isNew bool)
}

// Config of an Evaluator. The zero value of a field means its default.
type Config struct {
	Step   time.Duration // of the window; default 1 h
	Filter *delta.Filter // facts committed before, not to be sent again; may be nil
	Quota  Quota         // nil: no limits
	// Limits of what one request leaves behind; 0 means the defaults, which are for files.
	MaxHours int // hours of all services that records fall into; they are counted in one transaction
	MaxSpans int // default 1,048,576
	MaxFacts int // rows of a store; default 131,072
}

// Input says for whom and when a request is judged. Times are Unix nanoseconds.
type Input struct {
	OrganizationID string
	HashKey        delta.HashKey // of the organization; needed

	Budget      *Budget // of the request that this is a part of; nil: it is the whole
	Start       uint64  // of the window: what is older counts as usage only
	MetricStart uint64  // of the shorter window of MET-003 and MET-004
	Arrival     uint64  // the time of records without a usable timestamp, and of usage
	Latest      uint64  // timestamps after it are not believed
}

// Evaluator judges requests. It must not be used concurrently; its caches make it
// worth keeping.
type Evaluator struct {
	cfg Config

	attributes    verdictCache // by the bytes of a KeyValue
	texts         verdictCache // by the bytes of a name, body or scope
	names         nameCache
	resources     map[resourceKey]*resource
	resourcesSize int                // bytes that they take, about
	metrics       map[uint64]*metric // of all organizations

	overflow *trace.Resource // of the spans past a quota

	in    Input
	batch *Batch

	ctx       context.Context // of the request in hand
	offset    int             // in it, of the record in hand
	steps     uint64          // taken for it
	nextCheck uint64          // steps at which the context is looked at
	charged   uint64          // of the steps, to the budget
	budget    *Budget

	// Views of the entry in hand, here so that they do not escape one by one.
	entry    wire.ResourceEntry
	scope    wire.ScopeEntry
	span     wire.Span
	event    wire.SpanEvent
	link     wire.SpanLink
	metric   wire.Metric
	point    wire.DataPoint
	exemplar wire.Exemplar
	record   wire.LogRecord
	buckets  wire.Buckets
	valueBuf []byte

	metricHash  delta.Hash128 // stable hash of the name of the metric in hand; zero: not made yet
	seriesBase  uint64        // stable hash of resource, scope and metric in hand; 0: not made yet
	scopeBits   verdict       // of the scope in hand
	scopeID     uint64        // hash of it, of this process
	scopeSeries uint64        // stable hash of it, once scopeHashed
	scopeHashed bool
	scopeNoted  bool         // its evidence was
	scopeBucket delta.Bucket // for which it was noted
	scopeNewest uint64       // event time of the records that it makes fail
	stream      uint64       // hash of resource, scope and metric in hand, of this process
	listHash    uint64       // of the attributes last looked at, whatever their order, of this process

	service       *service  // of the resource in hand
	resource      *resource // in hand
	resourceBytes []byte    // of it
	newest        newest    // record of the entry in hand

	request uint64      // number of the request in hand
	noted   [1024]noted // evidence considered lately
}

// noted is a piece of evidence, by a hash of this process, and the newest bucket for
// which it was considered.
type noted struct {
	hash   uint64
	bucket delta.Bucket
}

// unnoted reports whether a piece of evidence was not considered just before, for the
// service and request in hand: the same one often stands on record after record. Only
// the newest bucket of evidence is kept, so older ones need not be considered.
func (e *Evaluator) unnoted(hash uint64) bool {
	hash += e.service.hash + e.request*0x9e3779b97f4a7c15
	n := &e.noted[hash%uint64(len(e.noted))]
	if n.hash == hash && n.bucket >= e.service.bucket {
		return false
	}
	n.hash, n.bucket = hash, e.service.bucket
	return true
}

// newest is the record of an entry with the newest event time.
type newest struct {
	time    uint64
	traceID [16]byte
}

// Caches of decided resources and metrics are emptied when they reach these sizes.
const (
	maxResources     = 1 << 14
	maxResourceBytes = 32 << 20
	maxMetrics       = 1 << 15
)

// One request may hold so many records, and leave so many facts. What real
// exporters send is far below; past it a request's facts would need many times
// the memory of the request, and longer to commit than other requests can wait.
const (
	maxItems   = 4 << 20
	maxSpans   = 1 << 20
	maxFacts   = 1 << 17
	maxSeries  = 1 << 20
	errTooMany = "the request holds too many records, or spreads them over too many services, instances, attributes and hours; send smaller requests"
)

// NewEvaluator returns an Evaluator with empty caches.
func NewEvaluator(cfg Config) *Evaluator {
	if cfg.Step <= 0 {
		cfg.Step = assay.DefaultWindowStep
	}
	if cfg.MaxHours <= 0 {
		cfg.MaxHours = math.MaxInt
	}
	if cfg.MaxSpans <= 0 {
		cfg.MaxSpans = maxSpans
	}
	if cfg.MaxFacts <= 0 {
		cfg.MaxFacts = maxFacts
	}
	return &Evaluator{
		cfg:       cfg,
		resources: make(map[resourceKey]*resource),
		metrics:   make(map[uint64]*metric),
		overflow:  &trace.Resource{Unjudged: true},
	}
}

// Evaluate judges one request and adds what it found to b, which should be empty.
// Malformed input, and input that takes more work than its size allows, is a
// *wire.Error. When ctx ends, Evaluate stops within some thousand steps and returns an
// error that wraps the context's cause. After an error b must be released and reset.
// Nothing in b refers to body.
func (e *Evaluator) Evaluate(ctx context.Context, signal wire.Signal, body []byte, in Input, b *Batch) error {
	var records func(wire.Message) error
	switch signal {
	case wire.Traces:
		records = e.spanMessage
	case wire.Metrics:
		records = e.metricMessage
	case wire.Logs:
		records = e.logMessage
	default:
		return fmt.Errorf("evaluate: unknown signal %d", signal)
	}
	e.in, e.batch = in, b
	b.begin(e, signal)
	e.request++
	e.ctx, e.offset, e.steps, e.nextCheck, e.charged, e.budget = ctx, 0, 0, 0, 0, in.Budget
	if e.budget == nil {
		e.budget = NewBudget(len(body))
	}
	defer func() { e.batch, e.ctx, e.service, e.resource, e.resourceBytes = nil, nil, nil, nil, nil }()

	entries, err := wire.Request(body)
	if err != nil {
		return err
	}
	share := byteShare{total: len(body), entries: entries.Len()}
	for m, ok := entries.Next(); ok; m, ok = entries.Next() {
		if err := e.entryMessage(m, records, share.of(len(m.Bytes))); err != nil {
			return err
		}
	}
	b.finish()
	return nil
}

// byteShare shares a request's bytes out to its entries, framing included, so
// that the shares add up to the whole.
type byteShare struct{ total, entries, given int }

func (s *byteShare) of(entry int) uint64 {
	s.entries--
	n := 1 + varintLen(uint64(entry)) + entry
	if s.entries == 0 {
		n = s.total - s.given
	}
	s.given += n
	return uint64(n)
}

func varintLen(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}

// entryMessage judges one ResourceSpans, ResourceMetrics or ResourceLogs.
func (e *Evaluator) entryMessage(m wire.Message, records func(wire.Message) error, size uint64) error {
	e.offset = m.Offset
	if err := e.spend(stepsPerEntry); err != nil {
		return err
	}
	if err := e.entry.Decode(m); err != nil {
		return err
	}
	if res := e.entry.Resource; e.resource == nil || !bytes.Equal(res.Bytes, e.resourceBytes) {
		r, err := e.resourceOf(res)
		if err != nil {
			return err
		}
		e.resource, e.resourceBytes = r, res.Bytes
		e.service = e.batch.service(e, r)
	}
	e.newest = newest{}
	items := e.batch.Items[e.batch.signal]

	scopes := e.entry.Scopes
	for sm, ok := scopes.Next(); ok; sm, ok = scopes.Next() {
		e.offset = sm.Offset
		if err := e.spend(stepsPerScope); err != nil {
			return err
		}
		if err := e.scope.Decode(sm); err != nil {
			return err
		}
		if err := e.scopeVerdict(e.scope.Scope); err != nil {
			return err
		}
		list := e.scope.Records
		for rm, ok := list.Next(); ok; rm, ok = list.Next() {
			e.offset = rm.Offset
			if err := e.spend(stepsPerRecord); err != nil {
				return err
			}
			if err := records(rm); err != nil {
				return err
			}
			if e.batch.Items[e.batch.signal] > maxItems || e.batch.facts > e.cfg.MaxFacts || e.batch.series > maxSeries ||
				e.batch.buckets > e.cfg.MaxHours {
				return &wire.Error{Offset: rm.Offset, Field: "ExportServiceRequest", Reason: errTooMany}
			}
		}
		e.scopeDone()
	}
	items = e.batch.Items[e.batch.signal] - items
	e.service.AddUsage(e.batch.arrival, e.batch.signal, delta.Usage{Items: items - e.batch.elsewhere, Bytes: size})
	if n := e.batch.elsewhere; n > 0 {
		e.batch.overflow().AddUsage(e.batch.arrival, e.batch.signal, delta.Usage{Items: n})
		e.batch.elsewhere = 0
	}
	if items > 0 {
		e.resourceRules()
	}
	return e.spend(0)
}

// eventTime returns the event time that a timestamp stands for and whether it
// lies in the window.
func (e *Evaluator) eventTime(timestamp uint64) (uint64, bool) {
	if timestamp == 0 || timestamp > e.in.Latest {
		timestamp = e.in.Arrival
	}
	return timestamp, timestamp >= e.in.Start
}
