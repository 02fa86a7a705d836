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
	"assay/internal/rules/sensitive"
	"assay/internal/trace"
	"assay/internal/wire"
)

// Quota limits the data that one organization may store. Implementations must be safe for
// concurrent use.
type Quota interface {
	// AdmitService reports whether a service may be stored. isNew means that the admission uses quota, which the caller
	// releases if the request is not committed (see Batch.Admitted).
	AdmitService(organizationID string, k assay.ServiceKey) (ok, isNew bool)
	// AdmitMetricName is AdmitService for a metric name of a service, by the Low of its
	// stable hash.
	AdmitMetricName(organizationID string, k assay.ServiceKey, name uint64) (ok, isNew bool)
	// AdmitMetricDetail is AdmitService for the details of a service's metrics that rules
	// compare: a unit or a list of bounds of a name, an attribute key of a name. Details
	// beyond the limit are not compared.
	AdmitMetricDetail(organizationID string, k assay.ServiceKey, detail uint64) (ok, isNew bool)
	// AdmitInstance is AdmitService for an instance of a service on a workload in an hour
	// (since 1970), by a non-zero hash of all of them. Instances beyond the limit are not
	// compared.
	AdmitInstance(organizationID string, k assay.ServiceKey, hour, instance uint64) (ok, isNew bool)
}

// Config configures an Evaluator. Zero fields select the default.
type Config struct {
	Step   time.Duration // of the window; default 1 h
	Filter *delta.Filter // facts that are committed and need not be sent again; may be nil
	Quota  Quota         // nil: no limits
	// Limits of one request; 0 means the defaults, which are for files.
	MaxServices int // with or without records; one transaction writes them
	MaxHours    int // hours of records, added over all services; one transaction counts them
	MaxSpans    int // default 1,048,576
	MaxFacts    int // rows of a store; default 131,072
}

// Input identifies the organization and the time of a request. Times are Unix
// nanoseconds.
type Input struct {
	OrganizationID string
	HashKey        delta.HashKey // of the organization; required

	Budget      *Budget // of the request that this is a part of; nil: it is the whole request
	Start       uint64  // of the window: older records count as usage only
	MetricStart uint64  // of the shorter window of MET-003 and MET-004
	Arrival     uint64  // the time of records without a usable timestamp, and of usage
	Latest      uint64  // later timestamps are invalid
	Closed      bool    // the window ends at Latest: later records count as usage only
}

// Evaluator evaluates requests. It is not safe for concurrent use. Reuse it: its caches
// speed up later requests.
type Evaluator struct {
	cfg Config

	attributes    verdictCache // by the bytes of a KeyValue
	texts         verdictCache // by the bytes of a name, body or scope
	keys          keyCache
	names         nameCache
	resources     map[resourceKey]*resource
	resourcesSize int                // approximate size of the cached resources in bytes
	metrics       map[uint64]*metric // of all organizations

	overflow *trace.Resource // of the spans beyond a quota

	in    Input
	batch *Batch

	ctx       context.Context // of the current request
	offset    int             // of the current record in the request
	steps     uint64          // of the current request
	nextCheck uint64          // steps at which to check the context
	charged   uint64          // steps already charged to the budget
	budget    *Budget
	own       Budget                   // of a request without parts
	meter     sensitive.Meter          // counts lookups
	decoding  func(steps uint64) error // spend

	// Views of the current entry. They are fields so that they do not escape individually.
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

	// Buffers for the resource that is being decided.
	resourceAttributes attributes
	shownResource      attributesJSON

	metricHash  delta.Hash128 // stable hash of the name of the current metric; zero: not computed
	seriesBase  uint64        // stable hash of the current resource, scope and metric; 0: not computed
	scopeBits   verdict       // of the current scope
	scopeID     uint64        // process-local hash of the current scope
	scopeSeries uint64        // stable hash of the current scope, if scopeHashed
	scopeHashed bool
	scopeNoted  bool         // whether its evidence was added
	scopeBucket delta.Bucket // the bucket of this evidence
	scopeNewest uint64       // newest event time of the records that the scope makes fail
	stream      uint64       // process-local hash of the current resource, scope and metric
	listHash    uint64       // process-local hash of the last list of attributes, independent of order

	service       *service  // of the current resource
	resource      *resource // the current one
	resourceBytes []byte    // of the current resource
	newest        newest    // newest record of the current entry

	request uint64       // number of the current request
	noted   [1024]noted  // recently considered evidence
	recent  [2048]uint64 // recently remembered facts of requests
}

// remembered reports whether a fact of the current request was remembered recently, by a
// hash that covers the whole fact. The same fact often repeats on consecutive records.
func (e *Evaluator) remembered(hash uint64) bool {
	return e.recent[hash%uint64(len(e.recent))] == hash+e.request*0x9e3779b97f4a7c15
}

// has reports whether a fact is committed, or was remembered recently. The lookup of a
// new fact misses the caches of the processor, and takes longer than most other work for
// an attribute.
func (e *Evaluator) has(hash uint64) bool { return e.remembered(hash) || e.cfg.Filter.Has(hash) }

// remember records by hash that the batch has a fact.
func (e *Evaluator) remember(hash uint64) {
	e.recent[hash%uint64(len(e.recent))] = hash + e.request*0x9e3779b97f4a7c15
	if e.cfg.Filter != nil {
		e.batch.scratch.Remember = append(e.batch.scratch.Remember, hash)
	}
}

// noted is a piece of evidence, by its process-local hash, and the newest bucket for
// which it was considered.
type noted struct {
	hash   uint64
	bucket delta.Bucket
}

// unnoted reports whether a piece of evidence was not considered recently for the current
// service and request. The same evidence often repeats on consecutive records. The store
// keeps only the newest bucket of evidence, so older buckets need not be considered.
func (e *Evaluator) unnoted(hash uint64) bool {
	hash += e.service.hash + e.request*0x9e3779b97f4a7c15
	n := &e.noted[hash%uint64(len(e.noted))]
	if n.hash == hash && n.bucket >= e.service.bucket {
		return false
	}
	n.hash, n.bucket = hash, e.service.bucket
	return true
}

// newest is the newest record of an entry by event time.
type newest struct {
	time    uint64
	traceID [16]byte
}

// maxValueBuf is the size in bytes of the buffer that an evaluator keeps.
const maxValueBuf = 1 << 20

// Caches of decided resources and metrics are emptied when they reach these sizes.
const (
	maxResources     = 1 << 14
	maxResourceBytes = 32 << 20
	maxMetrics       = 1 << 15
)

// Limits of the records and facts of one request. Real exporters stay far below. Beyond
// them, a request's facts would need many times the memory of the request, and their
// commit would delay other requests too long.
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
	if cfg.MaxServices <= 0 {
		cfg.MaxServices = math.MaxInt
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
	e := &Evaluator{
		cfg:       cfg,
		resources: make(map[resourceKey]*resource),
		metrics:   make(map[uint64]*metric),
		overflow:  &trace.Resource{ParentsOnly: true},

		resourceAttributes: make(attributes),
		shownResource:      attributesJSON{keys: make(map[string]bool)},
	}
	e.meter, e.decoding = e.lookups, e.spend
	return e
}

// Evaluate evaluates one request and adds the facts to b, which should be empty. For
// malformed input, and for input that takes more work than its size allows, the error is
// a *wire.Error. If ctx ends, Evaluate stops within some thousand steps and returns an
// error that wraps the context's cause. After an error, the caller must release and reset
// b. b does not refer to body.
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
		e.budget = &e.own
		e.own.left.Store(limit(len(body)))
	}
	defer e.release()

	if err := wire.ValidateLarge(signal, body, e.decoding); err != nil {
		return err
	}
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
	if err := e.spend(entries.Passed()); err != nil { // the last text was not searched completely
		return err
	}
	b.finish()
	return nil
}

// release drops the references to the request, so that an idle evaluator holds none of its memory.
func (e *Evaluator) release() {
	e.batch, e.ctx, e.service, e.resource, e.resourceBytes = nil, nil, nil, nil, nil
	e.entry, e.scope, e.span, e.event, e.link = wire.ResourceEntry{}, wire.ScopeEntry{}, wire.Span{}, wire.SpanEvent{}, wire.SpanLink{}
	e.metric, e.point, e.exemplar = wire.Metric{}, wire.DataPoint{}, wire.Exemplar{}
	e.record, e.buckets = wire.LogRecord{}, wire.Buckets{}
	clear(e.resourceAttributes)
	if cap(e.valueBuf) > maxValueBuf {
		e.valueBuf = nil
	}
}

// byteShare distributes the bytes of a request over its entries, including the framing,
// so that the shares add up to the whole.
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

// entryMessage evaluates one ResourceSpans, ResourceMetrics or ResourceLogs.
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
			if err := e.bounded(rm.Offset); err != nil {
				return err
			}
		}
		if err := e.spend(list.Passed()); err != nil {
			return err
		}
		e.scopeDone()
	}
	if err := e.spend(scopes.Passed()); err != nil {
		return err
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
	if err := e.bounded(m.Offset); err != nil {
		return err
	}
	return e.spend(0)
}

// bounded returns an error if the facts of the request exceed a limit. A service without
// records counts: it has usage, which takes rows.
func (e *Evaluator) bounded(offset int) error {
	b := e.batch
	if b.Items[b.signal] > maxItems || b.facts > e.cfg.MaxFacts || b.series > maxSeries ||
		b.buckets > e.cfg.MaxHours || len(b.services) > e.cfg.MaxServices {
		return &wire.Error{Offset: offset, Field: "ExportServiceRequest", Reason: errTooMany}
	}
	return nil
}

// eventTime returns the event time of a timestamp and reports whether it is in the
// window.
func (e *Evaluator) eventTime(timestamp uint64) (uint64, bool) {
	if e.in.Closed && timestamp > e.in.Latest {
		return 0, false
	}
	if timestamp == 0 || timestamp > e.in.Latest {
		timestamp = e.in.Arrival
	}
	return timestamp, timestamp >= e.in.Start
}
