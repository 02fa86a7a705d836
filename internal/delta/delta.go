// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"cmp"
	"slices"
	"time"

	"assay"
	"assay/internal/rules/catalog"
)

// Bucket is the start of one step of the window, in Unix seconds. With the
// default step of an hour it is a clock hour, UTC.
type Bucket int64

// BucketOf returns the bucket of an event time in Unix nanoseconds.
func BucketOf(unixNano uint64, step time.Duration) Bucket {
	s := uint64(step / time.Second)
	if s == 0 {
		s = 1
	}
	sec := unixNano / uint64(time.Second)
	return Bucket(sec - sec%s)
}

// Time returns the start of the bucket.
func (b Bucket) Time() time.Time { return time.Unix(int64(b), 0).UTC() }

// Count is how many observations a rule made and how many of them failed.
type Count struct {
	Observed uint64
	Failed   uint64
}

// Add adds o to c.
func (c *Count) Add(o Count) {
	c.Observed += o.Observed
	c.Failed += o.Failed
}

// Verdicts are the counts of all rules in one bucket.
type Verdicts struct {
	Bucket Bucket
	Counts [catalog.Count]Count
}

// Signal indexes usage.
type Signal uint8

// The signals.
const (
	Traces Signal = iota
	Metrics
	Logs
	SignalCount
)

// Usage is what a service sent of one signal.
type Usage struct {
	Items uint64 // spans, metric data points or log records
	Bytes uint64 // uncompressed OTLP protobuf bytes
}

// HourUsage is what a service sent with event times in one bucket.
type HourUsage struct {
	Bucket Bucket
	Usage  [SignalCount]Usage
}

// Example is one failing observation, the newest of its rule and service.
type Example struct {
	TimeUnixNano       uint64 // event time
	Signal             Signal
	TraceID            [16]byte // zero where it has none
	ResourceAttributes string   // JSON object without sensitive values, at most 4 KiB
	SamplingRate       float64  // share of traces kept; 1 unless trace memory ran short, 0 where it does not apply
}

// Newer orders examples totally, so that merging commutes.
func (e *Example) Newer(o *Example) bool {
	if c := cmp.Compare(e.TimeUnixNano, o.TimeUnixNano); c != 0 {
		return c > 0
	}
	if e.TraceID != o.TraceID {
		return string(e.TraceID[:]) > string(o.TraceID[:])
	}
	if e.Signal != o.Signal {
		return e.Signal > o.Signal
	}
	if e.ResourceAttributes != o.ResourceAttributes {
		return e.ResourceAttributes > o.ResourceAttributes
	}
	return e.SamplingRate > o.SamplingRate
}

// List names one of the lists of evidence that an insight shows.
type List uint8

// The lists, with the names under which insights show them.
const (
	MetricNames List = iota
	AttributeKeys
	SpanNames
	Findings // "where: kind" pairs of sensitive data
	DiscouragedAttributes
	Units
	MissingAttribute
	ListCount
)

var listNames = [ListCount]string{
	"metric_names", "attribute_keys", "span_names", "findings", "discouraged_attributes", "units", "missing_attribute",
}

func (l List) String() string {
	if l < ListCount {
		return listNames[l]
	}
	return "unknown"
}

// MaxItems bounds every evidence list of a rule and service.
const MaxItems = 20

// FindingSeparator stands in a Findings item between where and what kind.
const FindingSeparator = "\n"

// MaxItemBytes bounds one evidence item.
const MaxItemBytes = 256

// Item identifies one entry of an evidence list. Its text holds no sensitive
// value.
type Item struct {
	Rule catalog.Rule
	List List
	Text string
}

// Claim says that a service gave Value to Key, of which the whole organization
// (RES-002, MET-003, MET-004) may hold one value only, or (LOG-001) that it saw
// something on a day. Key and Value are stable hashes, for LOG-001 numbers; the
// texts are what an insight shows, without sensitive values.
//
// A Key has 128 bits: it is compared with all keys of the organization, of which there
// may be billions, and two that collide would be a conflict that does not exist. A
// Value is compared with the values of its own key alone, so 64 bits are enough.
type Claim struct {
	Rule  catalog.Rule
	Key   Hash128
	Value uint64
}

// ClaimFact is the newest bucket in which a claim was made, and its texts.
type ClaimFact struct {
	Last      Bucket
	KeyText   string // metric name; "" for RES-002 and LOG-001
	ValueText string // unit; "" elsewhere
}

// The keys of LOG-001's claims, in Low; their values are days since 1970.
const (
	KeyLogDay   = 1 // the service sent log records on that day
	KeyDebugDay = 2 // the service sent DEBUG records on that day
)

// KeySpanNames is the key of SPA-003's sets. Older versions had 0: their sets are of
// hashes that were not keyed.
const KeySpanNames = 1

// DistinctKey identifies one set of distinct values that a rule counts. A set is of
// one service and hour, so 64 bits tell its keys apart.
type DistinctKey struct {
	Rule catalog.Rule
	Hour int64  // Unix seconds of a clock hour, UTC
	Key  uint64 // stable hash of what is counted: metric name and attribute key; KeySpanNames for SPA-003
}

// DistinctFact is the set with what an insight says when it grows past its limit.
type DistinctFact struct {
	Last   Bucket // newest bucket that added to the set or saw it
	Values Set
	Metric string // metric name without sensitive parts; "" for SPA-003
	Attr   string // attribute key without sensitive parts; "" for SPA-003
}

// Service is what was seen of one service.
type Service struct {
	Key assay.ServiceKey

	FirstSeen, LastSeen uint64 // event times, Unix nanoseconds; 0 means none

	Verdicts []Verdicts  // one per bucket, in no order
	Usage    []HourUsage // one per bucket, in no order

	Examples [catalog.Count]*Example
	Items    map[Item]Bucket // newest bucket by item; at most MaxItems per rule and list
	Claims   map[Claim]ClaimFact
	Distinct map[DistinctKey]*DistinctFact
	Series   Series // metric series

	byBucket map[Bucket]int        // positions in Verdicts, once there are many
	texts    map[itemList][]string // of Items, sorted
	steps    uint64
}

// itemList is one evidence list of a rule.
type itemList struct {
	rule catalog.Rule
	list List
}

// Reset empties s and keeps its memory, as far as it is not large.
func (s *Service) Reset() {
	clear(s.Items)
	clear(s.Claims)
	clear(s.Distinct)
	clear(s.byBucket)
	clear(s.texts)
	s.Series.Reset()
	*s = Service{
		Verdicts: s.Verdicts[:0], Usage: s.Usage[:0], Items: s.Items, Claims: s.Claims, Distinct: s.Distinct,
		Series: s.Series, byBucket: s.byBucket, texts: s.texts,
	}
}

// Steps returns how many buckets, items, claims, sets and series were added to s or
// looked at for it. Tests use it to bound the work for a request.
func (s *Service) Steps() uint64 { return s.steps }

// scanned is up to how many buckets a scan finds one faster than an index.
const scanned = 8

// Counts returns the counts of a bucket, to be added to until the next call.
func (s *Service) Counts(b Bucket) *[catalog.Count]Count {
	n := len(s.Verdicts)
	if n <= scanned {
		s.byBucket = nil
		for i := range s.Verdicts {
			s.steps++
			if s.Verdicts[i].Bucket == b {
				return &s.Verdicts[i].Counts
			}
		}
	} else {
		if len(s.byBucket) != n {
			s.indexBuckets()
		}
		s.steps++
		if i, ok := s.byBucket[b]; ok {
			return &s.Verdicts[i].Counts
		}
		s.byBucket[b] = n
	}
	s.Verdicts = append(s.Verdicts, Verdicts{Bucket: b})
	return &s.Verdicts[n].Counts
}

func (s *Service) indexBuckets() {
	s.byBucket = make(map[Bucket]int, 2*len(s.Verdicts))
	for i := range s.Verdicts {
		s.byBucket[s.Verdicts[i].Bucket] = i
	}
	s.steps += uint64(len(s.Verdicts))
}

// AddUsage counts what was sent in a bucket. It scans the buckets: they are those in
// which requests arrived, which senders do not choose.
func (s *Service) AddUsage(b Bucket, signal Signal, u Usage) {
	for i := range s.Usage {
		if s.Usage[i].Bucket == b {
			s.Usage[i].Usage[signal].Items += u.Items
			s.Usage[i].Usage[signal].Bytes += u.Bytes
			return
		}
	}
	h := HourUsage{Bucket: b}
	h.Usage[signal] = u
	s.Usage = append(s.Usage, h)
}

// Seen widens the span between first and last event time.
func (s *Service) Seen(unixNano uint64) {
	if s.FirstSeen == 0 || unixNano < s.FirstSeen {
		s.FirstSeen = unixNano
	}
	s.LastSeen = max(s.LastSeen, unixNano)
}

// AddExample keeps the newest example of a rule. It keeps e itself.
func (s *Service) AddExample(r catalog.Rule, e *Example) {
	if old := s.Examples[r]; old == nil || e.Newer(old) {
		s.Examples[r] = e
	}
}

// AddItem adds one entry to an evidence list, which keeps its MaxItems smallest. It
// reports whether the entry is new and was kept.
func (s *Service) AddItem(it Item, b Bucket) bool {
	s.steps++
	if old, ok := s.Items[it]; ok {
		if b > old {
			s.Items[it] = b
		}
		return false
	}
	if s.Items == nil {
		s.Items = make(map[Item]Bucket)
	}
	if s.texts == nil {
		s.indexItems()
	}
	key := itemList{it.Rule, it.List}
	texts := s.texts[key]
	i, _ := slices.BinarySearch(texts, it.Text)
	if i >= MaxItems {
		return false
	}
	if len(texts) >= MaxItems {
		largest := texts[MaxItems-1]
		delete(s.Items, Item{it.Rule, it.List, largest})
		texts = texts[:MaxItems-1]
	}
	s.Items[it] = b
	s.texts[key] = slices.Insert(texts, i, it.Text)
	return true
}

// indexItems sorts the texts of items that were not added by AddItem.
func (s *Service) indexItems() {
	s.texts = make(map[itemList][]string)
	for it := range s.Items {
		key := itemList{it.Rule, it.List}
		s.texts[key] = append(s.texts[key], it.Text)
	}
	for _, texts := range s.texts {
		slices.Sort(texts)
	}
	s.steps += uint64(len(s.Items))
}

// AddClaim adds a claim.
func (s *Service) AddClaim(c Claim, f ClaimFact) {
	s.steps++
	old, ok := s.Claims[c]
	if ok && old.Last >= f.Last {
		return
	}
	if s.Claims == nil {
		s.Claims = make(map[Claim]ClaimFact)
	}
	if ok { // texts derive from the key and value, so either side's will do
		f.KeyText, f.ValueText = old.KeyText, old.ValueText
	}
	s.Claims[c] = f
}

// DistinctSet returns the set of a key, made with the limit and texts given when
// it is new.
func (s *Service) DistinctSet(k DistinctKey, b Bucket, limit uint64, metric, attr string) *Set {
	s.steps++
	f := s.Distinct[k]
	if f == nil {
		if s.Distinct == nil {
			s.Distinct = make(map[DistinctKey]*DistinctFact)
		}
		f = &DistinctFact{Values: Set{Limit: limit}, Metric: metric, Attr: attr}
		s.Distinct[k] = f
	}
	f.Last = max(f.Last, b)
	return &f.Values
}

// Merge adds o to s, in steps that are linear in o. It leaves o as it is; examples,
// which do not change, are shared.
func (s *Service) Merge(o *Service) {
	if o.FirstSeen != 0 {
		s.Seen(o.FirstSeen)
		s.Seen(o.LastSeen)
	}
	s.steps += uint64(1 + len(o.Series.seen))
	for i := range o.Verdicts {
		c := s.Counts(o.Verdicts[i].Bucket)
		for r := range c {
			c[r].Add(o.Verdicts[i].Counts[r])
		}
	}
	for i := range o.Usage {
		for sig, u := range o.Usage[i].Usage {
			if u != (Usage{}) {
				s.AddUsage(o.Usage[i].Bucket, Signal(sig), u)
			}
		}
	}
	for r, e := range o.Examples {
		if e != nil {
			s.AddExample(catalog.Rule(r), e)
		}
	}
	for it, b := range o.Items {
		s.AddItem(it, b)
	}
	for c, f := range o.Claims {
		s.AddClaim(c, f)
	}
	for k, f := range o.Distinct {
		s.DistinctSet(k, f.Last, f.Values.Limit, f.Metric, f.Attr).Merge(&f.Values)
	}
	s.Series.Merge(&o.Series)
}

// Organization is what was seen of one organization.
type Organization struct {
	ID         string
	Services   map[assay.ServiceKey]*Service
	LogRecords assay.SeverityCounts // accepted, whatever their service and time
}

// Service returns the facts of a service, made when it is new.
func (o *Organization) Service(k assay.ServiceKey) *Service {
	s := o.Services[k]
	if s == nil {
		if o.Services == nil {
			o.Services = make(map[assay.ServiceKey]*Service)
		}
		s = &Service{Key: k}
		o.Services[k] = s
	}
	return s
}

// Delta is what was seen since the last commit. It is not safe for concurrent
// use.
type Delta struct {
	Organizations map[string]*Organization // by id

	Journals []Journal // each of another name

	// Remember holds the filter hashes of the facts in here, to be added to the
	// Filter once they are committed.
	Remember []uint64
}

// Organization returns the facts of an organization, made when it is new.
func (d *Delta) Organization(id string) *Organization {
	o := d.Organizations[id]
	if o == nil {
		if d.Organizations == nil {
			d.Organizations = make(map[string]*Organization)
		}
		o = &Organization{ID: id}
		d.Organizations[id] = o
	}
	return o
}

// LogRecords returns the log records of each organization that sent some, nil when
// there are none.
func (d *Delta) LogRecords() map[string]assay.SeverityCounts {
	var records map[string]assay.SeverityCounts
	for id, o := range d.Organizations {
		if o.LogRecords == (assay.SeverityCounts{}) {
			continue
		}
		if records == nil {
			records = make(map[string]assay.SeverityCounts)
		}
		records[id] = o.LogRecords
	}
	return records
}

// Steps returns the sum of the steps of all services.
func (d *Delta) Steps() (n uint64) {
	for _, o := range d.Organizations {
		for _, s := range o.Services {
			n += s.steps
		}
	}
	return n
}

// Empty reports whether there is nothing to commit.
func (d *Delta) Empty() bool { return len(d.Organizations) == 0 && len(d.Journals) == 0 }

// Merge adds the facts of o to d, not its journals. It leaves o as it is.
func (d *Delta) Merge(o *Delta) {
	for id, from := range o.Organizations {
		to := d.Organization(id)
		to.LogRecords.Add(&from.LogRecords)
		for key, s := range from.Services {
			to.Service(key).Merge(s)
		}
	}
	d.Remember = append(d.Remember, o.Remember...)
}
