// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"context"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/fair"
)

// Resource holds the properties of a span's resource that the trace rules use.
type Resource struct {
	Service     assay.ServiceKey
	Hash        uint64 // delta.ServiceHash of the organization and Service
	ParentsOnly bool   // its spans count only as parents (overflow service)
	Attributes  string // JSON for evidence, without sensitive values

	// Of the Assembler that owns the resource.
	held    int       // references by open traces
	content uint64    // keyed hash of the organization's texts; 0: not computed
	same    *Resource // the last held resource with the same texts, to which open traces referred instead
}

// contentSeed is the hash key for the content of resources.
var contentSeed = maphash.MakeSeed()

// contentHash returns the hash of the texts of a resource.
func (r *Resource) contentHash() uint64 {
	if r.content == 0 {
		var h maphash.Hash
		h.SetSeed(contentSeed)
		for _, text := range [...]string{r.Service.Namespace, r.Service.Name, r.Service.Environment, r.Service.Version, r.Attributes} {
			_, _ = h.WriteString(text)
			_ = h.WriteByte(0)
		}
		r.content = h.Sum64() | 1
	}
	return r.content
}

// interned returns the resource with the texts of r that an open trace of the organization holds, or r if there is
// none. Each request has its own copy of a resource, which a trace would otherwise count again.
func (o *tenant) interned(r *Resource) *Resource {
	if r.held > 0 {
		return r
	}
	if r.same == nil || r.same.held == 0 {
		r.same = nil
		if x := o.resources[r.contentHash()]; x != nil && x.Service == r.Service && x.Attributes == r.Attributes {
			r.same = x
		}
	}
	return cmp.Or(r.same, r)
}

// Span holds the properties of a span that the trace rules use.
type Span struct {
	TraceID  [16]byte
	SpanID   [8]byte
	ParentID [8]byte // zero: a root span
	Time     uint64  // event time, Unix nanoseconds
	Internal bool    // kind is INTERNAL
	Short    bool    // shorter than 5 ms, and does not end before it starts
	Resource *Resource
	Name     string // without sensitive parts
	NameHash uint64 // keyed hash of Name, so that senders cannot produce collisions
}

// Config configures an Assembler. A zero field selects the default.
type Config struct {
	Idle   time.Duration // a trace closes when no span has arrived for this time; default 30 s
	Max    time.Duration // maximum age of a trace before it closes; default 10 minutes
	Memory int           // budget in bytes, shared by the organizations; default 128 MiB
	Seed   uint64        // seed of the sampling hash, so that senders cannot choose trace ids that are kept
	Step   time.Duration // bucket size of the scoring window; default 1 h
	Filter *delta.Filter // filters evidence that was committed before; may be nil
}

func (c Config) withDefaults() Config {
	if c.Idle <= 0 {
		c.Idle = 30 * time.Second
	}
	if c.Max <= 0 {
		c.Max = 10 * time.Minute
	}
	if c.Memory <= 0 {
		c.Memory = 128 << 20
	}
	if c.Step <= 0 {
		c.Step = assay.DefaultWindowStep
	}
	return c
}

// Stats describes the usage of an Assembler.
type Stats struct {
	Traces       int     // open traces
	Spans        int     // spans in memory
	Bytes        int     // bytes of the budget in use
	SamplingRate float64 // fraction of traces kept, for the organization with the lowest
	Dropped      uint64  // spans dropped since the start
	JournalBytes int     // size of the journal entries still in use
}

// Assembler holds open traces. It is safe for concurrent use. Organizations share its memory. When it is full, the
// traces of the organization that holds most are sampled.
type Assembler struct {
	cfg Config

	mu         sync.Mutex
	traces     table
	orgs       map[string]uint32
	tenants    []*tenant // by number
	initial    sampling  // for new organizations
	nextTenant int       // index of the tenant to evaluate next
	shares     *fair.Shares
	free       []*openTrace

	spans, bytes int
	texts        int    // bytes of resource texts of all traces, each resource counted for each trace
	opened       int    // traces in the current transaction
	sweeps       int    // organizations that are sweeping
	dropped      uint64 // spans

	scratch bundle // used by Add
	named   []numberedName
	journal journal // if there is one
	sweeper int     // index of the organization whose entries are swept next
	reading *tenant // its evaluated traces are being read without mu

	evaluation sync.Mutex // acquired before mu; guards the fields below
	evaluator  evaluator
	snapshots  []snapshot
}

// numberedName is the number of a name in the table of the last lookup.
type numberedName struct {
	table  *names
	number uint32
}

// record is a span of an open trace. It has no pointers, so the garbage collector does not scan records.
type record struct {
	id, parent uint64 // 0: none
	name       uint32
	resource   uint16
	flags      uint16
}

const (
	flagInternal = 1 << iota
	flagShort
)

const (
	recordBytes    = 24
	entryBytes     = 8   // a trace's reference to a journal entry
	traceBytes     = 320 // an open trace, including its map entry
	resourceBytes  = 192 // a resource without its texts, including its map entry
	referenceBytes = 64  // a resource in the list and index of a trace
)

// Texts returns the size of the texts of a resource, in bytes.
func (r *Resource) Texts() int {
	k := &r.Service
	return len(r.Attributes) + len(k.Namespace) + len(k.Name) + len(k.Environment) + len(k.Version)
}

// size returns the bytes charged for a resource, once for all open traces.
func (r *Resource) size() int { return resourceBytes + r.Texts() }

// Limits of one trace, so that one transaction can move it to another journal entry. Spans of further resources count
// only as parents. Further spans are dropped, and the trace counts as one that lacks its beginning.
const (
	maxResources     = 1 << 10 // distinct resources
	maxResourceTexts = 1 << 20 // bytes of their texts
	maxTraceSpans    = 1 << 18
)

// openTrace is small because most traces are not in the caches of the processor when a span arrives or they close.
type openTrace struct {
	key       key
	hash      uint64 // of key
	partial   bool   // its beginning may be missing
	closing   bool   // closes when the current transaction commits
	evaluated bool   // is in a Piece
	of        *tenant
	level     uint  // this trace represents 2^level traces
	first     int64 // first arrival, Unix nanoseconds
	last      int64 // newest arrival
	arrived   links
	started   links
	time      uint64 // newest event time
	names     *names
	records   []record
	resources []*Resource
	index     map[*Resource]uint16 // index of resources, once there are many
	texts     int                  // bytes of the texts of resources
	entries   []uint64             // positions of the journal entries with its spans
	failures  *failures            // nil: none
	sameHash  *openTrace           // next trace in the table with the same hash

	// generation distinguishes the traces that reuse this memory.
	generation uint64
}

// failures describes the failed transactions with the verdict for a trace.
type failures struct {
	count   int
	commits uint64 // commits of other transactions at the last failure
	retry   int64  // time of the next attempt, Unix nanoseconds; 0: at once
}

// NewAssembler returns an empty Assembler.
func NewAssembler(cfg Config) *Assembler {
	cfg = cfg.withDefaults()
	return &Assembler{
		cfg: cfg, traces: table{byHash: make(map[uint64]*openTrace)}, orgs: make(map[string]uint32), shares: fair.NewShares(int64(cfg.Memory)),
		evaluator: evaluator{rows: make(map[uint64]struct{}), evident: make(map[uint64]struct{})},
	}
}

// Add adds spans of one organization with the arrival time now. Spans without a trace id are ignored.
func (a *Assembler) Add(now time.Time, organizationID string, spans []Span) {
	if len(spans) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scratch.reset()
	a.scratch.add(a, a.org(organizationID), spans, math.MaxInt)
	a.apply(now, &a.scratch)
	if a.full() {
		a.shed(now, math.MaxInt)
	}
}

// apply adds the spans of a bundle with the arrival time now. Traces that were moved keep their earlier times.
func (a *Assembler) apply(now time.Time, b *bundle) {
	a.named = slices.Grow(a.named[:0], len(b.names))[:len(b.names)]
	for i := range b.groups { // lookups one after the other wait for memory at the same time
		if g := &b.groups[i]; !g.sampledOut {
			g.trace = a.traces.get(g.key, g.hash)
		}
	}
	for i := range b.groups {
		g := &b.groups[i]
		if g.sampledOut {
			a.dropped += uint64(g.n)
			continue
		}
		a.open(now, g)
		a.add(g.trace, b, g)
	}
	clear(a.named)
}

// open opens the trace of a group unless it is open.
func (a *Assembler) open(now time.Time, g *group) {
	if t := g.trace; t != nil {
		t.last = now.UnixNano()
		t.of.arrived.moveToBack(t)
		if g.moved {
			t.level = max(t.level, g.level)
			t.partial = t.partial || g.partial
			if g.opened < t.first {
				a.end(t)
				t.first = g.opened
				t.of.begin(t)
			}
		}
		return
	}
	if len(a.free) == 0 {
		a.grow()
	}
	last := len(a.free) - 1
	t := a.free[last]
	a.free[last] = nil
	a.free = a.free[:last]
	o := a.tenants[g.key.org]
	t.key, t.hash, t.of, t.level, t.names = g.key, g.hash, o, o.level, o.names
	t.first, t.last = now.UnixNano(), now.UnixNano()
	t.partial = o.mayBePartial(now, a.cfg.Idle)
	t.names.traces++
	a.opened++
	a.traces.put(t)
	o.arrived.pushBack(t)
	if g.moved {
		t.first, t.partial, t.level = g.opened, g.partial, g.level
		o.begin(t)
	} else {
		o.started.pushBack(t)
	}
	a.charge(o, traceBytes+cap(t.records)*recordBytes+cap(t.entries)*entryBytes)
	g.trace = t
}

// begin inserts a trace that began before now. Such traces arrive in batches, oldest first, so the search continues
// at the last insertion.
func (o *tenant) begin(t *openTrace) {
	at := o.begun
	if at != nil && at.first > t.first {
		at = nil
	}
	next := o.started.front
	if at != nil {
		next = at.started.next
	}
	for next != nil && next.first <= t.first {
		at, next = next, next.started.next
	}
	o.started.insertAfter(at, t)
	o.begun = t
}

// end removes a trace from the list of started traces.
func (a *Assembler) end(t *openTrace) {
	if t.of.begun == t {
		t.of.begun = t.started.prev
	}
	if t.of.swept == t {
		t.of.swept = t.started.next
	}
	if t.of.ledger.cursor == t {
		t.of.ledger.cursor = t.started.next
	}
	t.of.started.remove(t)
}

// following returns the open trace after t, or the first one if t is nil, in the order of organizations and first
// arrivals.
func (a *Assembler) following(t *openTrace) *openTrace {
	org := uint32(0)
	if t != nil {
		if t.started.next != nil {
			return t.started.next
		}
		org = t.key.org + 1
	}
	for ; int(org) < len(a.tenants); org++ {
		if first := a.tenants[org].started.front; first != nil {
			return first
		}
	}
	return nil
}

// Traces are allocated in blocks. Each has room for the spans and resources of a typical trace.
const (
	tracesAtOnce   = 64
	firstRecords   = 8
	firstResources = 2
)

// grow allocates a block of traces.
func (a *Assembler) grow() {
	traces := make([]openTrace, tracesAtOnce)
	records := make([]record, tracesAtOnce*firstRecords)
	resources := make([]*Resource, tracesAtOnce*firstResources)
	for i := range traces {
		t := &traces[i]
		t.records = records[i*firstRecords : i*firstRecords : (i+1)*firstRecords]
		t.resources = resources[i*firstResources : i*firstResources : (i+1)*firstResources]
		a.free = append(a.free, t)
	}
}

// add adds the spans of a group to its trace.
func (a *Assembler) add(t *openTrace, b *bundle, g *group) {
	n := min(g.n, maxTraceSpans-len(t.records))
	if n < g.n {
		a.dropped += uint64(g.n - n)
		t.partial = true
	}
	before := cap(t.records)
	t.records = slices.Grow(t.records, n)
	a.charge(t.of, (cap(t.records)-before)*recordBytes)
	a.spans += n
	t.of.spans += n
	t.time = max(t.time, g.time)
	var r record
	const none = 1<<32 - 1
	resource, name := uint32(none), uint32(none)
	for it, left := g.first, n; left > 0; left-- {
		x := &b.items[it]
		it = x.next
		if x.resource != resource {
			resource, r.resource = x.resource, a.resource(t, b.resources[x.resource])
		}
		if x.name != name {
			name, r.name = x.name, a.name(t, b, x.name)
		}
		r.id, r.parent, r.flags = x.id, x.parent, x.flags
		t.records = append(t.records, r)
	}
}

// name returns the number of a bundle's name in the trace's table.
func (a *Assembler) name(t *openTrace, b *bundle, name uint32) uint32 {
	if name == 0 {
		return 0
	}
	n := &a.named[name]
	if n.table != t.names {
		*n = numberedName{t.names, a.intern(t.of, t.names, b.names[name])}
	}
	return n.number
}

// scanned is the number of resources up to which a trace is searched linearly. Above, it has an index.
const scanned = 16

// find returns the index of r among the resources of the trace.
func (t *openTrace) find(r *Resource) (uint16, bool) {
	n := len(t.resources)
	for i := n - 1; i >= max(0, n-scanned); i-- {
		if t.resources[i] == r {
			return uint16(i), true
		}
	}
	i, ok := t.index[r]
	return i, ok
}

// resource returns the index of r among the resources of the trace, adding it if necessary.
func (a *Assembler) resource(t *openTrace, r *Resource) uint16 {
	if r.ParentsOnly {
		r = t.of.parentsOnly
	} else {
		r = t.of.interned(r)
	}
	if i, ok := t.find(r); ok {
		return i
	}
	if r != t.of.parentsOnly && (len(t.resources) >= maxResources-1 || t.texts+r.Texts() > maxResourceTexts) {
		return a.resource(t, t.of.parentsOnly)
	}
	n := len(t.resources)
	t.resources = append(t.resources, r)
	if n == scanned {
		t.index = make(map[*Resource]uint16)
		for i, x := range t.resources {
			t.index[x] = uint16(i)
		}
	} else if n > scanned {
		t.index[r] = uint16(n)
	}
	if r.held++; r.held == 1 {
		a.charge(t.of, r.size())
		if !r.ParentsOnly {
			t.of.resources[r.contentHash()] = r
		}
	}
	a.charge(t.of, referenceBytes)
	a.chargeTexts(t, r.Texts())
	return uint16(n)
}

// chargeTexts adds to the size of the resource texts of a trace.
func (a *Assembler) chargeTexts(t *openTrace, bytes int) {
	t.texts += bytes
	t.of.texts += bytes
	a.texts += bytes
}

// maxFreeRecords is the capacity up to which the memory of a closed trace is reused. The organization that reuses it
// is charged for it.
const maxFreeRecords = 2 * firstRecords

// remove deletes a trace and makes its memory available for reuse.
func (a *Assembler) remove(t *openTrace) {
	o := t.of
	a.traces.delete(t)
	o.arrived.remove(t)
	a.end(t)
	a.spans -= len(t.records)
	o.spans -= len(t.records)
	freed := traceBytes + cap(t.records)*recordBytes + cap(t.entries)*entryBytes + len(t.resources)*referenceBytes
	a.unref(t)
	for _, r := range t.resources {
		if r.held--; r.held == 0 {
			freed += r.size()
			if h := r.contentHash(); o.resources[h] == r {
				delete(o.resources, h)
			}
		}
	}
	a.chargeTexts(t, -t.texts)
	if t.names.traces--; t.names.traces == 0 {
		freed += t.names.bytes
		o.nameBytes -= t.names.bytes
		o.dropTable(t.names)
	}
	a.charge(o, -freed)
	t.generation++
	if t.evaluated && a.reading == o || cap(t.records) > maxFreeRecords || len(a.free) > a.traces.len+1024 {
		return
	}
	clear(t.resources)
	*t = openTrace{resources: t.resources[:0], records: t.records[:0], entries: t.entries[:0], generation: t.generation}
	a.free = append(a.free, t)
}

// Stats returns the usage of the Assembler.
func (a *Assembler) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	level := uint(0)
	for _, o := range a.tenants {
		level = max(level, o.level)
	}
	return Stats{
		Traces: a.traces.len, Spans: a.spans, Bytes: a.bytes, SamplingRate: rate(level),
		Dropped: a.dropped, JournalBytes: a.journal.bytes,
	}
}

// rate returns the fraction of traces kept at a sampling level.
func rate(level uint) float64 { return 1 / float64(uint64(1)<<level) }

// Expire closes the traces that are due at now and adds their verdicts to d. Verdicts before windowStart (Unix
// nanoseconds) are dropped.
func (a *Assembler) Expire(now time.Time, windowStart uint64, d *delta.Delta) {
	a.closeAll(Due{Now: now, WindowStart: windowStart}, d)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.relax(now)
}

// Flush closes all traces. If complete is false, spans may still arrive (during a shutdown), and SPA-002 is not
// evaluated.
func (a *Assembler) Flush(windowStart uint64, complete bool, d *delta.Delta) {
	a.closeAll(Due{All: true, Incomplete: !complete, WindowStart: windowStart}, d)
}

// closeAll closes traces and adds their verdicts to d.
func (a *Assembler) closeAll(due Due, d *delta.Delta) {
	a.mu.Lock()
	steps := math.MaxInt
	for _, o := range a.tenants {
		a.sweep(o, &steps)
	}
	a.mu.Unlock()
	for more := true; more; {
		var pieces []*Piece
		pieces, more = a.Evaluate(context.Background(), due)
		a.mu.Lock()
		for _, p := range pieces {
			known := make(map[uint64]*delta.Service)
			for i := range p.traces {
				if t := &p.traces[i]; t.current() {
					p.merge(d, known, t)
					a.remove(t.trace)
				}
			}
			p.release()
		}
		a.mu.Unlock()
	}
}

// catchUp sets an organization's timestamps after now to now. Timestamps are in the future when the store's clock goes
// back, as after a failover. Concurrent transactions have a later time, so timestamps are left that are not more than an
// idle period ahead.
func (a *Assembler) catchUp(o *tenant, now time.Time) {
	limit := now.Add(a.cfg.Idle)
	a.catchUpSampling(&o.sampling, now)
	if o.roomSince.After(limit) {
		o.roomSince = now
	}
	if t := o.arrived.front; t == nil || t.last <= limit.UnixNano() {
		return
	}
	latest := now.UnixNano()
	for t := o.started.front; t != nil; t = t.started.next {
		t.first, t.last = min(t.first, latest), min(t.last, latest)
		if t.failures != nil {
			t.failures.retry = min(t.failures.retry, latest)
		}
	}
}

// catchUpSampling is catchUp for the sampling of an organization.
func (a *Assembler) catchUpSampling(s *sampling, now time.Time) {
	if s.lowered > now.Add(a.cfg.Idle).UnixNano() {
		s.lowered = now.UnixNano()
	}
}
