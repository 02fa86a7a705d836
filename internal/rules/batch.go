// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/trace"
	"assay/internal/wire"
)

// Batch is what one request left behind. It can be used again after Reset. It
// must not be used concurrently.
type Batch struct {
	// Spans are for the assembler of traces, once the batch is committed.
	Spans []trace.Span
	// Items counts the records of the request by signal.
	Items [delta.SignalCount]uint64
	// Admitted is what the quota newly admitted for this batch, to be released when
	// the batch is not committed.
	Admitted []Admission
	// OverflowItems counts the records past a quota.
	OverflowItems uint64

	organization string
	signal       delta.Signal
	arrival      delta.Bucket
	elsewhere    uint64 // records of the entry in hand that count for the overflow service
	severities   assay.SeverityCounts
	scratch      delta.Delta
	services     []*service
	index        map[uint64]*service
	free         []*service
	filter       *delta.Filter
	facts        int // rows that a store would write: of buckets, claims and distinct sets
	buckets      int // of these, the ones of buckets
	series       int // metric series held
}

// Admission is one place that the quota gave to a batch.
type Admission struct {
	Service    assay.ServiceKey
	MetricName uint64 // Low of the stable hash of an admitted name, or 0
	Detail     uint64 // hash of an admitted detail, or 0
	Instance   uint64 // hash of an admitted instance, or 0; with none of them, the service itself
	Hour       uint64 // of the instance
}

// service is what a batch says of one service.
type service struct {
	delta.Service
	hash     uint64 // of organization and key
	overflow bool

	// The bucket of the last record, and its counts.
	counts             *[catalog.Count]delta.Count
	bucket             delta.Bucket
	bucketLo, bucketHi uint64

	failing [catalog.Count]failure
	items   [catalog.Count][delta.ListCount]uint8
}

// failure is the newest failing observation of a rule.
type failure struct {
	time     uint64
	traceID  [16]byte
	resource *resource
}

func (b *Batch) begin(e *Evaluator, signal wire.Signal) {
	b.organization = e.in.OrganizationID
	b.signal = SignalOf(signal)
	b.filter = e.cfg.Filter
	b.arrival = delta.BucketOf(e.in.Arrival, e.cfg.Step)
	if b.index == nil {
		b.index = make(map[uint64]*service)
	}
}

// SignalOf returns the index under which facts of a signal are kept.
func SignalOf(s wire.Signal) delta.Signal { return delta.Signal(s - wire.Traces) }

// Reset empties the batch and keeps its memory, as far as it is not large.
func (b *Batch) Reset() {
	const keep = 64
	for i, s := range b.services {
		if i < keep && len(b.free) < keep {
			s.reset()
			b.free = append(b.free, s)
		}
	}
	if len(b.services) > keep {
		b.index = nil
	}
	clear(b.services)
	clear(b.index)
	clear(b.Spans)
	if cap(b.Spans) > 1<<16 {
		b.Spans = nil
	}
	*b = Batch{
		Spans: b.Spans[:0], Admitted: b.Admitted[:0],
		scratch:  delta.Delta{Remember: b.scratch.Remember[:0]},
		services: b.services[:0], index: b.index, free: b.free,
	}
}

func (s *service) reset() {
	s.Reset()
	*s = service{Service: s.Service}
}

// service returns the batch's facts of a resource's service, or of the overflow
// service where the quota does not admit it.
func (b *Batch) service(e *Evaluator, r *resource) *service {
	if s := b.index[r.trace.Hash]; s != nil {
		return s
	}
	key, hash := r.trace.Service, r.trace.Hash
	if q := e.cfg.Quota; q != nil && !key.Overflow() {
		ok, isNew := q.AdmitService(b.organization, key)
		if isNew {
			b.Admitted = append(b.Admitted, Admission{Service: key})
		}
		if !ok {
			return b.overflow()
		}
	}
	e.steps += stepsPerService
	return b.add(key, hash)
}

// overflow returns the batch's facts of the overflow service.
func (b *Batch) overflow() *service {
	key := assay.ServiceKey{Name: assay.OverflowService}
	hash := delta.ServiceHash(b.organization, key)
	if s := b.index[hash]; s != nil {
		return s
	}
	return b.add(key, hash)
}

func (b *Batch) add(key assay.ServiceKey, hash uint64) *service {
	var s *service
	if n := len(b.free); n > 0 {
		s, b.free[n-1] = b.free[n-1], nil
		b.free = b.free[:n-1]
	} else {
		s = new(service)
	}
	s.Key, s.hash, s.overflow = key, hash, key.Overflow()
	b.services = append(b.services, s)
	b.index[hash] = s
	return s
}

// at returns the counts for an event time.
func (s *service) at(e *Evaluator, t uint64) *[catalog.Count]delta.Count {
	if t >= s.bucketLo && t < s.bucketHi {
		return s.counts
	}
	before := len(s.Verdicts)
	s.bucket = delta.BucketOf(t, e.cfg.Step)
	s.bucketLo = uint64(s.bucket) * uint64(time.Second)
	s.bucketHi = s.bucketLo + uint64(e.cfg.Step)
	s.counts = s.Counts(s.bucket)
	e.steps += stepsPerFact
	if len(s.Verdicts) > before {
		e.batch.facts++
		e.batch.buckets++
		e.steps += stepsPerNew
	}
	return s.counts
}

// fail notes a failing observation as the rule's example, if it is the newest. The
// counts are the caller's.
func (s *service) fail(r catalog.Rule, t uint64, traceID []byte, res *resource) {
	f := &s.failing[r]
	if f.resource == nil || t >= f.time {
		f.time, f.resource = t, res
		f.traceID = [16]byte{}
		copy(f.traceID[:], traceID)
	}
}

// full reports whether the batch has all the evidence of a rule and list that it
// gives the store.
func (s *service) full(r catalog.Rule, l delta.List) bool { return s.items[r][l] == delta.MaxItems }

// item adds evidence. A batch gives the store at most MaxItems of a rule and list.
func (b *Batch) item(s *service, r catalog.Rule, l delta.List, text string) {
	if s.full(r, l) || text == "" {
		return
	}
	before := len(s.Items)
	b.scratch.AddItem(b.filter, &s.Service, s.hash, delta.Item{Rule: r, List: l, Text: text}, s.bucket)
	if len(s.Items) > before {
		s.items[r][l]++
	}
}

// finish turns the failures noted into examples.
func (b *Batch) finish() {
	for _, s := range b.services {
		for r := range s.failing {
			if f := &s.failing[r]; f.resource != nil {
				b.scratch.AddExample(b.filter, &s.Service, s.hash, catalog.Rule(r), delta.Example{
					TimeUnixNano: f.time, Signal: b.signal, TraceID: f.traceID,
					ResourceAttributes: f.resource.trace.Attributes,
				})
			}
		}
	}
}

// spansPerRow is how many spans take about the memory of the facts of a row.
const spansPerRow = 8

// Rows returns about how many rows a store writes for the facts alone, and as how many
// the spans are, which are written to a journal and held in memory until then.
func (b *Batch) Rows() int { return 1 + len(b.services) + b.facts + len(b.Spans)/spansPerRow }

// Detach takes claims and distinct sets out of the batch if they are more than most
// rows, and returns them in groups of at most so many. They may be committed any number
// of times, and before the batch, so that no transaction has to hold all of them.
func (b *Batch) Detach(most int) (groups []*delta.Delta) {
	if b.facts-b.buckets <= most {
		return nil
	}
	rows := most
	var org *delta.Organization
	into := func(s *service) *delta.Service {
		if rows == most {
			d := new(delta.Delta)
			org, rows = d.Organization(b.organization), 0
			groups = append(groups, d)
		}
		rows++
		to := org.Service(s.Key)
		to.Seen(s.FirstSeen) // says nothing else of a service that is new
		to.Seen(s.LastSeen)
		return to
	}
	for _, s := range b.services {
		for c, f := range s.Claims {
			into(s).AddClaim(c, f)
		}
		for k, f := range s.Distinct {
			into(s).DistinctSet(k, f.Last, f.Values.Limit, f.Metric, f.Attr).Merge(&f.Values)
		}
		clear(s.Claims)
		clear(s.Distinct)
	}
	b.facts = b.buckets
	return groups
}

// MergeInto adds the facts to d. It leaves b as it is.
func (b *Batch) MergeInto(d *delta.Delta) {
	if len(b.services) == 0 {
		return
	}
	org := d.Organization(b.organization)
	org.LogRecords.Add(&b.severities)
	for _, s := range b.services {
		org.Service(s.Key).Merge(&s.Service)
	}
	d.Remember = append(d.Remember, b.scratch.Remember...)
}
