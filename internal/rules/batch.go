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

// Batch holds the facts of one request. It can be reused after Reset. It is not safe for
// concurrent use.
type Batch struct {
	// Spans go to the trace assembler after the batch is committed.
	Spans []trace.Span
	// Items counts the records of the request by signal.
	Items [delta.SignalCount]uint64
	// Admitted lists the new admissions of the quota for this batch. The caller releases
	// them if the batch is not committed.
	Admitted []Admission
	// OverflowItems counts the records beyond a quota.
	OverflowItems uint64

	organization string
	signal       delta.Signal
	arrival      delta.Bucket
	elsewhere    uint64 // records of the current entry that count for the overflow service
	severities   assay.SeverityCounts
	scratch      delta.Delta
	services     []*service
	index        map[uint64]*service
	free         []*service
	filter       *delta.Filter
	facts        int // rows that a store would write for buckets, claims and distinct sets
	buckets      int // number of buckets in facts
	series       int // metric series held
	texts        int // bytes of the texts of the spans' resources
}

// Admission is one admission of the quota to a batch.
type Admission struct {
	Service    assay.ServiceKey
	MetricName uint64 // Low of the stable hash of an admitted name, or 0
	Detail     uint64 // hash of an admitted detail, or 0
	Instance   uint64 // hash of an admitted instance, or 0; all three are 0 for the service itself
}

// service holds the facts of a batch about a service.
type service struct {
	delta.Service
	hash     uint64 // of organization and key
	overflow bool

	// The bucket of the last record, and its counts.
	counts             *[catalog.Count]delta.Count
	bucket             delta.Bucket
	bucketLo, bucketHi uint64

	failing [catalog.Count]failure
	items   [catalog.Count][delta.ListCount]evidenceCount
}

// evidenceCount counts evidence of a rule and list: added, and attempted.
type evidenceCount struct{ added, tried uint8 }

// maxTried limits the evidence of a rule and list that a batch examines. Most requests
// repeat the same evidence, so examining more is wasted work.
const maxTried = 10 * delta.MaxItems

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

// SignalOf returns the index of a signal in facts.
func SignalOf(s wire.Signal) delta.Signal { return delta.Signal(s - wire.Traces) }

// Reset empties the batch. It keeps the allocated memory unless it is large.
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

// service returns the facts of a resource's service, or of the overflow service if the
// quota does not admit the service.
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
	e.steps += stepsPerBucket
	if len(s.Verdicts) > before {
		e.batch.facts++
		e.batch.buckets++
		e.steps += stepsPerNew
	}
	return s.counts
}

// fail stores a failing observation as the example of the rule, if it is the newest. The
// caller counts it.
func (s *service) fail(r catalog.Rule, t uint64, traceID []byte, res *resource) {
	f := &s.failing[r]
	if f.resource == nil || t >= f.time {
		f.time, f.resource = t, res
		f.traceID = [16]byte{}
		copy(f.traceID[:], traceID)
	}
}

// full reports whether the batch needs no more evidence of a rule and list.
func (s *service) full(r catalog.Rule, l delta.List) bool {
	n := &s.items[r][l]
	return n.added == delta.MaxItems || n.tried >= maxTried
}

// item adds evidence. A batch gives the store at most MaxItems of a rule and list.
func (b *Batch) item(s *service, r catalog.Rule, l delta.List, text string) {
	if s.full(r, l) || text == "" {
		return
	}
	before := len(s.Items)
	b.scratch.AddItem(b.filter, &s.Service, s.hash, delta.Item{Rule: r, List: l, Text: text}, s.bucket)
	n := &s.items[r][l]
	n.tried++
	if len(s.Items) > before {
		n.added++
	}
}

// finish converts the stored failures to examples.
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

// The numbers of spans, and of bytes of the texts of their resources, that use about as much memory as the facts of a row.
const (
	spansPerRow = 8
	textsPerRow = 512
)

// bucketRows is the number of rows that use about as much memory as the verdicts and the usage of a bucket.
const bucketRows = 4

// Rows returns an estimate of the rows that a store writes for the facts alone, in which
// large rows count more, and the equivalent number of rows of the spans, which are
// written to a journal and held in memory until then. The facts use at most 512 bytes a row.
func (b *Batch) Rows() int {
	return 1 + len(b.services) + b.facts + (bucketRows-1)*b.buckets + b.largeRows() + len(b.Spans)/spansPerRow + b.texts/textsPerRow
}

// largeRows returns the additional rows for large distinct sets, beyond one for each, for
// the metric series and for evidence.
func (b *Batch) largeRows() (n int) {
	for _, s := range b.services {
		n += len(s.Distinct)*(delta.SetRows-1) + s.EvidenceRows()
		if !s.Series.Empty() {
			n += delta.SeriesRows
		}
	}
	return n
}

// Detach removes claims, distinct sets, metric series and evidence from the batch if they
// have more than so many rows. It returns them in groups of at most so many rows. The groups may be
// committed any number of times, and before the batch, so that no transaction has to hold
// all of them.
func (b *Batch) Detach(most int) (groups []*delta.Delta) {
	if b.facts-b.buckets+b.largeRows() <= most {
		return nil
	}
	rows := most
	var org *delta.Organization
	into := func(s *service, n int) *delta.Service {
		if rows+n > most {
			d := new(delta.Delta)
			org, rows = d.Organization(b.organization), 0
			groups = append(groups, d)
		}
		rows += n
		to := org.Service(s.Key)
		to.Seen(s.FirstSeen) // the only field of a new service that the group needs
		to.Seen(s.LastSeen)
		return to
	}
	for _, s := range b.services {
		for c, f := range s.Claims {
			into(s, 1).AddClaim(c, f)
		}
		for k, f := range s.Distinct {
			into(s, delta.SetRows).DistinctSet(k, f.Last, f.Values.Limit, f.Metric, f.Attr).Merge(&f.Values)
		}
		if !s.Series.Empty() {
			into(s, delta.SeriesRows).Series.Merge(&s.Series)
		}
		if n := s.EvidenceRows(); n > 0 {
			s.DetachEvidence(into(s, n))
		}
		clear(s.Claims)
		clear(s.Distinct)
		s.Series.Reset()
	}
	b.facts = b.buckets
	return groups
}

// MergeInto merges the facts into d. It does not change b.
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
