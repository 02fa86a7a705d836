// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"cmp"
	"slices"
	"time"

	"assay"
	"assay/internal/rules/catalog"
)

// Bucket is the start of a bucket of the scoring window, in Unix seconds. With the default step of an hour it is a
// UTC clock hour.
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

// Count is the number of observations of a rule and the number of failed ones.
type Count struct {
	Observed uint64
	Failed   uint64
}

// Add adds o to c.
func (c *Count) Add(o Count) {
	c.Observed += o.Observed
	c.Failed += o.Failed
}

// Verdicts holds the counts of all rules in one bucket.
type Verdicts struct {
	Bucket Bucket
	Counts [catalog.Count]Count
}

// Signal is a telemetry signal and the index of its usage.
type Signal uint8

// The signals.
const (
	Traces Signal = iota
	Metrics
	Logs
	SignalCount
)

// Usage is the telemetry of one signal that a service sent.
type Usage struct {
	Items uint64 // spans, metric data points or log records
	Bytes uint64 // uncompressed OTLP protobuf bytes
}

// HourUsage is the telemetry that a service sent with event times in one bucket.
type HourUsage struct {
	Bucket Bucket
	Usage  [SignalCount]Usage
}

// Example is the newest failing observation of a rule and service.
type Example struct {
	TimeUnixNano       uint64 // event time
	Signal             Signal
	TraceID            [16]byte // zero if absent
	ResourceAttributes string   // JSON object without sensitive values, at most 4 KiB
	SamplingRate       float64  // fraction of traces kept; 1 without sampling, 0 if not applicable
}

// Newer reports whether e is newer than o. The order is total, so that merging commutes.
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

// List is one of the evidence lists of an insight.
type List uint8

// The evidence lists. Insights use their String form.
const (
	MetricNames List = iota
	AttributeKeys
	SpanNames
	Findings // location and kind of sensitive data
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

// MaxItems limits each evidence list of a rule and service.
const MaxItems = 20

// FindingSeparator separates the location and the kind in an item of Findings.
const FindingSeparator = "\n"

// MaxItemBytes limits one evidence item.
const MaxItemBytes = 256

// Item identifies an entry of an evidence list. Text contains no sensitive value.
type Item struct {
	Rule catalog.Rule
	List List
	Text string
}

// Claim records that a service used Value for Key. For RES-002, MET-003 and MET-004, an organization should have one
// value per key. For LOG-001, the claim records an observation on a day. Key and Value are stable hashes, or numbers
// for LOG-001. The texts for insights are in ClaimFact.
//
// A Key has 128 bits, because it is compared with all keys of the organization, possibly billions, and a collision
// would be a false conflict. A Value is compared only with the values of its own key, so 64 bits suffice.
type Claim struct {
	Rule  catalog.Rule
	Key   Hash128
	Value uint64
}

// ClaimFact is the newest bucket of a claim and its texts, without sensitive values.
type ClaimFact struct {
	Last      Bucket
	KeyText   string // metric name; "" for RES-002 and LOG-001
	ValueText string // unit; "" otherwise
}

// Keys of the claims of LOG-001, in Low. The values are days since 1970.
const (
	KeyLogDay   = 1 // the service sent log records on that day
	KeyDebugDay = 2 // the service sent DEBUG records on that day
)

// KeySpanNames is the key of the sets of SPA-003. Older versions used 0, with unkeyed hashes.
const KeySpanNames = 1

// DistinctKey identifies a set of distinct values that a rule counts. A set belongs to one service and hour, so 64
// bits suffice for Key.
type DistinctKey struct {
	Rule catalog.Rule
	Hour int64  // Unix seconds of a clock hour, UTC
	Key  uint64 // stable hash of metric name and attribute key; KeySpanNames for SPA-003
}

// Rows charged for a distinct set, and for the metric series and the evidence of a service. A stored set takes up to
// about 10 KB, stored series 40 KB and more, stored evidence up to 140 KB. Each addition reads and rewrites the whole
// value.
const (
	SetRows      = 8
	SeriesRows   = 32
	EvidenceRows = 16 // plus one for each evidenceBytes that are added
)

const evidenceBytes = 4096

// EvidenceRows returns the number of rows charged for the examples and items of s.
func (s *Service) EvidenceRows() int {
	bytes, some := 0, len(s.Items) > 0
	for _, e := range s.Examples {
		if e != nil {
			bytes, some = bytes+len(e.ResourceAttributes), true
		}
	}
	if !some {
		return 0
	}
	for it := range s.Items {
		bytes += len(it.Text)
	}
	return EvidenceRows + bytes/evidenceBytes
}

// DetachEvidence moves the examples and items of s to another service.
func (s *Service) DetachEvidence(to *Service) {
	for r, e := range s.Examples {
		if e != nil {
			to.AddExample(catalog.Rule(r), e)
			s.Examples[r] = nil
		}
	}
	for it, b := range s.Items {
		to.AddItem(it, b)
	}
	clear(s.Items)
	clear(s.texts)
}

// DistinctFact is a set of distinct values and the texts for an insight.
type DistinctFact struct {
	Last   Bucket // newest bucket with a value
	Values Set
	Metric string // metric name without sensitive parts; "" for SPA-003
	Attr   string // attribute key without sensitive parts; "" for SPA-003
}

// Service holds the facts of one service.
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

	byBucket map[Bucket]int        // indexes in Verdicts, once there are many
	texts    map[itemList][]string // texts of Items, sorted
	steps    uint64
}

// itemList is one evidence list of a rule.
type itemList struct {
	rule catalog.Rule
	list List
}

// Reset empties s. It retains the memory unless it is large.
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

// Steps returns the number of buckets, items, claims, sets and series added to s or visited. Tests use it to bound
// the work per request.
func (s *Service) Steps() uint64 { return s.steps }

// scanned is the number of buckets up to which a linear scan is faster than an index.
const scanned = 8

// Counts returns the counts of a bucket. The pointer is valid until the next call.
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

// AddUsage adds to the usage in a bucket. It scans the buckets linearly: usage has the buckets of arrival times,
// which senders do not control.
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

// Seen extends the range of event times.
func (s *Service) Seen(unixNano uint64) {
	if s.FirstSeen == 0 || unixNano < s.FirstSeen {
		s.FirstSeen = unixNano
	}
	s.LastSeen = max(s.LastSeen, unixNano)
}

// AddExample records e if it is the newest example of a rule. It retains e.
func (s *Service) AddExample(r catalog.Rule, e *Example) {
	if old := s.Examples[r]; old == nil || e.Newer(old) {
		s.Examples[r] = e
	}
}

// AddItem adds an item to an evidence list, which holds the MaxItems smallest items. It reports whether the item was
// new and stored.
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

// AddClaim adds a claim or merges f into it.
func (s *Service) AddClaim(c Claim, f ClaimFact) {
	s.steps++
	old, ok := s.Claims[c]
	if ok && old.Last >= f.Last {
		return
	}
	if s.Claims == nil {
		s.Claims = make(map[Claim]ClaimFact)
	}
	if ok { // texts derive from key and value, so both sides have the same
		f.KeyText, f.ValueText = old.KeyText, old.ValueText
	}
	s.Claims[c] = f
}

// DistinctSet returns the set of a key. If it is new, it is created with the given limit and texts.
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

// Merge merges o into s, in time linear in o. It does not modify o, but shares its examples, which are immutable.
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

// Organization holds the facts of one organization.
type Organization struct {
	ID         string
	Services   map[assay.ServiceKey]*Service
	LogRecords assay.SeverityCounts // accepted records of all services and times
}

// Service returns the facts of a service, creating them if necessary.
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

// Delta holds the facts since the last commit. It is not safe for concurrent use.
type Delta struct {
	Organizations map[string]*Organization // by id

	Journals []Journal // with distinct names

	// Remember holds the filter hashes of these facts, to be added to the Filter after the commit.
	Remember []uint64
}

// Organization returns the facts of an organization, creating them if necessary.
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

// LogRecords returns the log record counts of each organization that sent any, or nil if none did.
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

// Merge merges the facts of o into d, without its journals. It does not modify o.
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
