// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"slices"
	"sync"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/fair"
)

// Resource is what the trace rules need to know of the resource of a span.
type Resource struct {
	Service    assay.ServiceKey
	Hash       uint64 // of the organization and Service, as delta.ServiceHash gives it
	Unjudged   bool   // its spans count as parents, but not against it (overflow)
	Attributes string // JSON for evidence, without sensitive values

	held int // references by open traces; of the one Assembler that gets the resource
}

// Span is what the trace rules need to know of a span.
type Span struct {
	TraceID  [16]byte
	SpanID   [8]byte
	ParentID [8]byte // zero: a root span
	Time     uint64  // event time, Unix nanoseconds
	Internal bool    // kind is INTERNAL
	Short    bool    // lasts under 5 ms and does not end before it starts
	Resource *Resource
	Name     string // without sensitive parts
	NameHash uint64 // of the name, the same wherever Name is the same; keyed, so that senders cannot make two alike
}

// Config of an Assembler. The zero value of a field means its default.
type Config struct {
	Idle   time.Duration // a trace closes when no span has arrived for this time; default 30 s
	Max    time.Duration // maximum age of a trace before it closes; default 10 minutes
	Memory int           // budget in bytes, which organizations share; default 128 MiB
	Seed   uint64        // of the hash that samples, so that senders cannot choose trace ids that stay
	Step   time.Duration // of the window; default 1 h
	Filter *delta.Filter // of evidence committed before; may be nil
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

// Stats says how full an Assembler is.
type Stats struct {
	Traces       int     // open now
	Spans        int     // kept now
	Bytes        int     // of the budget, in use
	SamplingRate float64 // share of traces kept, of the organization of which least are
	Dropped      uint64  // spans left out since the start
	JournalBytes int     // of the entries of the journal that are needed
}

// Assembler holds open traces. It may be used concurrently. Organizations share its
// memory: when it is full, traces of the one that holds most are sampled.
type Assembler struct {
	cfg Config

	mu      sync.Mutex
	traces  map[key]*openTrace
	orgs    map[string]uint32
	tenants []*tenant // by number
	initial sampling  // of new organizations
	turn    int       // number of the tenant whose traces are evaluated next
	shares  *fair.Shares
	free    []*openTrace

	spans, bytes int
	dropped      uint64 // spans

	scratch bundle // of Add
	named   []numberedName
	ledger  ledger // of a journal, if there is one

	evaluation sync.Mutex // held before mu; guards what follows
	judge      judge
	chosen     []*openTrace
	snapshots  []snapshot
}

// numberedName is the number of a name in the table in which it was last looked up.
type numberedName struct {
	table  *names
	number uint32
}

type key struct {
	org uint32
	id  [16]byte
}

// record is a span of an open trace: no pointers, so that the collector of
// garbage skips them all.
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
	entryBytes     = 8   // a trace's reference to an entry of the journal
	traceBytes     = 320 // an open trace and its share of the map
	resourceBytes  = 192 // a resource without its texts, and its share of the map
	referenceBytes = 64  // a resource in the list and index of a trace
)

// size returns what a resource takes of the budget, once for all open traces.
func (r *Resource) size() int {
	k := &r.Service
	return resourceBytes + len(r.Attributes) + len(k.Namespace) + len(k.Name) + len(k.Environment) + len(k.Version)
}

// maxResources bounds the resources told apart in one trace. Spans of further ones count
// as parents only.
const maxResources = 1 << 10

type openTrace struct {
	key       key
	of        *tenant
	level     uint // 2^level traces stand behind this one
	partial   bool // its beginning may be missing
	first     time.Time
	last      time.Time
	time      uint64 // newest event time
	names     *names
	resources []*Resource
	index     map[*Resource]uint16 // of the resources, once they are many
	records   []record
	entries   []uint64  // numbers of those of the journal that hold its spans
	closing   bool      // once the transaction in hand has committed
	evaluated bool      // is in a Piece
	reading   bool      // is read without the lock
	failures  int       // transactions with its verdict that failed
	commits   uint64    // of other transactions until the last of them
	retry     time.Time // until then the verdict is not tried again
	arrived   links
	started   links

	// generation tells the traces apart that use the memory of this one.
	generation uint64
}

// NewAssembler returns an empty Assembler.
func NewAssembler(cfg Config) *Assembler {
	cfg = cfg.withDefaults()
	return &Assembler{
		cfg: cfg, traces: make(map[key]*openTrace), orgs: make(map[string]uint32), shares: fair.NewShares(int64(cfg.Memory)),
		judge: judge{known: make(map[uint64]struct{})},
	}
}

// Add adds spans of one organization that arrived now. Spans without a trace id
// belong to no trace and are left out.
func (a *Assembler) Add(now time.Time, organizationID string, spans []Span) {
	if len(spans) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scratch.reset()
	a.scratch.add(a, a.org(organizationID), spans)
	a.apply(now, &a.scratch)
	if a.bytes > a.cfg.Memory {
		a.shed(now)
	}
}

// apply adds the spans of a bundle. They arrived at now; those of traces that were
// open before or elsewhere came earlier.
func (a *Assembler) apply(now time.Time, b *bundle) {
	a.named = slices.Grow(a.named[:0], len(b.names))[:len(b.names)]
	for i := range b.groups {
		g := &b.groups[i]
		if g.left {
			a.dropped += uint64(g.n)
			continue
		}
		g.trace = a.trace(now, g)
		a.add(g.trace, b, g)
	}
	clear(a.named)
}

// trace returns the open trace of a group, opened when there is none.
func (a *Assembler) trace(now time.Time, g *group) *openTrace {
	if t := a.traces[g.key]; t != nil {
		t.last = now
		t.of.arrived.moveToBack(t)
		if g.moved {
			t.level = max(t.level, g.level)
			t.partial = t.partial || g.partial
			if first := time.Unix(0, g.opened); first.Before(t.first) {
				a.end(t)
				t.first = first
				t.of.begin(t)
			}
		}
		return t
	}
	if len(a.free) == 0 {
		a.grow()
	}
	last := len(a.free) - 1
	t := a.free[last]
	a.free[last] = nil
	a.free = a.free[:last]
	o := a.tenants[g.key.org]
	t.key, t.of, t.level, t.first, t.last, t.names = g.key, o, o.level, now, now, o.names
	t.partial = o.suspects(now, a.cfg.Idle)
	t.names.traces++
	a.traces[t.key] = t
	o.arrived.pushBack(t)
	if g.moved {
		t.first, t.partial, t.level = time.Unix(0, g.opened), g.partial, g.level
		o.begin(t)
	} else {
		o.started.pushBack(t)
	}
	a.charge(o, traceBytes+cap(t.records)*recordBytes+cap(t.entries)*entryBytes)
	return t
}

// begin inserts a trace that began before now. Such traces come many at a time and the
// oldest first, so that the search goes on where the last one was inserted.
func (o *tenant) begin(t *openTrace) {
	at := o.begun
	if at != nil && at.first.After(t.first) {
		at = nil
	}
	next := o.started.front
	if at != nil {
		next = at.started.next
	}
	for next != nil && !next.first.After(t.first) {
		at, next = next, next.started.next
	}
	o.started.insertAfter(at, t)
	o.begun = t
}

// end takes a trace from the list of those that began.
func (a *Assembler) end(t *openTrace) {
	if t.of.begun == t {
		t.of.begun = t.started.prev
	}
	if a.ledger.cursor == t {
		a.ledger.cursor = a.following(t)
	}
	t.of.started.remove(t)
}

// following returns the open trace after t, nil for the first one, by organization and
// then by first arrival.
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

// Traces are made so many at a time, each with room for so many spans and
// resources, which is enough for most.
const (
	tracesAtOnce   = 64
	firstRecords   = 8
	firstResources = 2
)

// grow makes traces to be opened.
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
	before := cap(t.records)
	t.records = slices.Grow(t.records, g.n)
	a.charge(t.of, (cap(t.records)-before)*recordBytes)
	a.spans += g.n
	t.time = max(t.time, g.time)
	var r record
	const none = 1<<32 - 1
	resource, name := uint32(none), uint32(none)
	for it, left := g.first, g.n; left > 0; left-- {
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

// name returns the number of a bundle's name in the table of a trace.
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

// refers reports whether spans of the trace have a resource.
func (t *openTrace) refers(r *Resource) bool {
	_, ok := t.index[r]
	return ok
}

// scanned is how many resources of a trace are compared one by one; past it the
// others are looked up.
const scanned = 16

// resource returns the index of r among the resources of the trace.
func (a *Assembler) resource(t *openTrace, r *Resource) uint16 {
	n := len(t.resources)
	if r.Unjudged || n >= maxResources-1 && !t.refers(r) {
		r = t.of.unjudged
	}
	for i := n - 1; i >= max(0, n-scanned); i-- {
		if t.resources[i] == r {
			return uint16(i)
		}
	}
	if i, ok := t.index[r]; ok {
		return i
	}
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
	}
	a.charge(t.of, referenceBytes)
	return uint16(n)
}

// maxFreeRecords is the size up to which a closed trace's memory is used again. Another
// organization may get it, which is charged for it.
const maxFreeRecords = 2 * firstRecords

// remove forgets a trace and keeps its memory for another.
func (a *Assembler) remove(t *openTrace) {
	o := t.of
	delete(a.traces, t.key)
	o.arrived.remove(t)
	a.end(t)
	a.spans -= len(t.records)
	freed := traceBytes + cap(t.records)*recordBytes + cap(t.entries)*entryBytes + len(t.resources)*referenceBytes
	for _, seq := range t.entries {
		a.ledger.release(seq)
	}
	for _, r := range t.resources {
		if r.held--; r.held == 0 {
			freed += r.size()
		}
	}
	if t.names.traces--; t.names.traces == 0 {
		freed += t.names.bytes
		o.nameBytes -= t.names.bytes
		if t.names == o.names {
			o.names = newNames()
		}
	}
	a.charge(o, -freed)
	t.generation++
	if t.reading || cap(t.records) > maxFreeRecords || len(a.free) > len(a.traces)+1024 {
		return
	}
	clear(t.resources)
	*t = openTrace{resources: t.resources[:0], records: t.records[:0], entries: t.entries[:0], generation: t.generation}
	a.free = append(a.free, t)
}

// Stats returns how full the assembler is.
func (a *Assembler) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	level := uint(0)
	for _, o := range a.tenants {
		level = max(level, o.level)
	}
	return Stats{
		Traces: len(a.traces), Spans: a.spans, Bytes: a.bytes, SamplingRate: rate(level),
		Dropped: a.dropped, JournalBytes: a.ledger.bytes,
	}
}

// rate returns the share of traces that is kept at a level.
func rate(level uint) float64 { return 1 / float64(uint64(1)<<level) }

// Expire closes the traces that are due at now and adds their verdicts to d, as far as
// they fall into the window that starts at windowStart (Unix nanoseconds).
func (a *Assembler) Expire(now time.Time, windowStart uint64, d *delta.Delta) {
	a.closeAll(Due{Now: now, WindowStart: windowStart}, d)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.relax(now)
}

// Flush closes all traces. When complete is false their missing spans may still
// be on the way (a shutdown), and SPA-002 is left out.
func (a *Assembler) Flush(windowStart uint64, complete bool, d *delta.Delta) {
	a.closeAll(Due{All: true, Incomplete: !complete, WindowStart: windowStart}, d)
}

// closeAll closes traces and adds their verdicts to d.
func (a *Assembler) closeAll(due Due, d *delta.Delta) {
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

// ahead reports whether traces of an organization wait for a clock that went back, as
// the store's may after a failover.
func (a *Assembler) ahead(o *tenant, now time.Time) bool {
	t := o.arrived.front
	return t != nil && t.last.Sub(now) > a.cfg.Idle
}

// catchUp takes what lies ahead of now for now, if traces of an organization wait for
// it.
func (a *Assembler) catchUp(o *tenant, now time.Time) {
	if !a.ahead(o, now) {
		return
	}
	earlier := func(at *time.Time) {
		if at.After(now) {
			*at = now
		}
	}
	for t := o.started.front; t != nil; t = t.started.next {
		earlier(&t.first)
		earlier(&t.last)
		earlier(&t.retry)
	}
	o.lowered = min(o.lowered, now.UnixNano())
	earlier(&o.calm)
}
