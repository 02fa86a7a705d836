// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"assay"
	"assay/internal/delta"
)

// Resource is what the trace rules need to know of the resource of a span.
type Resource struct {
	Service    assay.ServiceKey
	Hash       uint64 // of the organization and Service
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
	NameHash uint64 // of the name, the same wherever Name is the same
}

// Config of an Assembler. The zero value of a field means its default.
type Config struct {
	Idle   time.Duration // a trace closes when no span arrived for so long; default 30 s
	Max    time.Duration // or so long after its first span; default 10 minutes
	Memory int           // budget in bytes; default 128 MiB. Span names may take an eighth of it besides
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
	SamplingRate float64 // share of traces kept
	Dropped      uint64  // spans left out since the start
	JournalBytes int     // of the entries of the journal that are needed
}

// Assembler holds open traces. It may be used concurrently.
type Assembler struct {
	cfg Config

	mu      sync.Mutex
	traces  map[key]*openTrace
	orgs    map[string]uint32
	orgIDs  []string
	arrived list       // by newest arrival
	started list       // by first arrival
	begun   *openTrace // the last one that was put among the started
	free    []*openTrace
	names   *names // for the traces opened from now on
	judge   judge
	due     []*openTrace // of Expire and Flush

	spans, bytes int
	nameBytes    int // of all tables of names in use
	dropped      uint64

	scratch bundle // of Add
	named   struct {
		table   *names
		numbers []uint32 // in the table, from 1, by number in the bundle in hand
	}
	ledger ledger // of a journal, if there is one

	// One trace in 2^level is kept. When the level goes down, at lowered, traces
	// that were dropped until then are still running; for one idle period what
	// arrives of them looks like traces that lost their beginning.
	level   uint
	calm    time.Time // since when memory was low enough for one level less; zero: not
	lowered time.Time
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

// maxResources bounds the resources told apart in one trace; spans of further
// ones count for the last.
const maxResources = 1 << 15

type openTrace struct {
	key       key
	level     uint // 2^level traces stand behind this one
	partial   bool // its beginning may be missing
	first     time.Time
	last      time.Time
	time      uint64 // newest event time
	names     *names
	resources []*Resource
	index     map[*Resource]uint16 // of the resources, once they are many
	records   []record
	entries   []uint64 // numbers of those of the journal that hold its spans
	closing   bool     // once the transaction in hand has committed
	arrived   links
	started   links
}

// NewAssembler returns an empty Assembler.
func NewAssembler(cfg Config) *Assembler {
	a := &Assembler{
		cfg:    cfg.withDefaults(),
		traces: make(map[key]*openTrace),
		orgs:   make(map[string]uint32),
		names:  newNames(),
	}
	a.arrived.of = func(t *openTrace) *links { return &t.arrived }
	a.started.of = func(t *openTrace) *links { return &t.started }
	return a
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
	a.named.table = nil
	for i := range b.groups {
		g := &b.groups[i]
		if g.left {
			a.dropped += uint64(g.n)
			continue
		}
		g.trace = a.trace(now, g)
		a.add(g.trace, b, g)
	}
	clear(a.named.numbers)
}

// trace returns the open trace of a group, opened when there is none.
func (a *Assembler) trace(now time.Time, g *group) *openTrace {
	if t := a.traces[g.key]; t != nil {
		t.last = now
		a.arrived.moveToBack(t)
		if g.moved {
			t.level = max(t.level, g.level)
			t.partial = t.partial || g.partial
			if first := time.Unix(0, g.opened); first.Before(t.first) {
				a.end(t)
				t.first = first
				a.begin(t)
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
	t.key, t.level, t.first, t.last, t.names = g.key, a.level, now, now, a.names
	t.partial = !a.lowered.IsZero() && now.Sub(a.lowered) < a.cfg.Idle
	t.names.traces++
	a.traces[t.key] = t
	a.arrived.pushBack(t)
	if g.moved {
		t.first, t.partial, t.level = time.Unix(0, g.opened), g.partial, g.level
		a.begin(t)
	} else {
		a.started.pushBack(t)
	}
	a.bytes += traceBytes + cap(t.records)*recordBytes + cap(t.entries)*entryBytes
	return t
}

// begin puts a trace that began before now in its place. Such traces come many at a
// time and the oldest first, so that the search goes on where the last one was put.
func (a *Assembler) begin(t *openTrace) {
	at := a.begun
	if at != nil && at.first.After(t.first) {
		at = nil
	}
	next := a.started.front
	if at != nil {
		next = at.started.next
	}
	for next != nil && !next.first.After(t.first) {
		at, next = next, next.started.next
	}
	a.started.insertAfter(at, t)
	a.begun = t
}

// end takes a trace from the list of those that began.
func (a *Assembler) end(t *openTrace) {
	if a.begun == t {
		a.begun = t.started.prev
	}
	if a.ledger.cursor == t {
		a.ledger.cursor = t.started.next
	}
	a.started.remove(t)
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
	a.bytes += (cap(t.records) - before) * recordBytes
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
	if t.names != a.names { // an older table, for few traces
		return a.intern(t.names, b.names[name])
	}
	if a.named.table != a.names {
		a.named.table = a.names
		clear(a.named.numbers)
		a.named.numbers = slices.Grow(a.named.numbers[:0], len(b.names))[:len(b.names)]
	}
	n := &a.named.numbers[name]
	if *n == 0 {
		i := a.intern(t.names, b.names[name])
		if a.named.table != a.names { // it is full
			return i
		}
		*n = i + 1
	}
	return *n - 1
}

// intern returns the number of a name in a table. Past the share of the budget
// that names may take, new ones are left out of the evidence.
func (a *Assembler) intern(n *names, name spanName) uint32 {
	before := n.bytes
	i := n.intern(name.hash, name.text, a.nameBytes < a.cfg.Memory/8)
	a.nameBytes += n.bytes - before
	if n == a.names && (n.full() || n.bytes > a.cfg.Memory/32) {
		a.names = newNames()
	}
	return i
}

// scanned is how many resources of a trace are compared one by one; past it the
// others are looked up.
const scanned = 16

// resource returns the index of r among the resources of the trace.
func (a *Assembler) resource(t *openTrace, r *Resource) uint16 {
	n := len(t.resources)
	for i := n - 1; i >= max(0, n-scanned); i-- {
		if t.resources[i] == r {
			return uint16(i)
		}
	}
	if i, ok := t.index[r]; ok {
		return i
	}
	if n == maxResources {
		return maxResources - 1
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
		a.bytes += r.size()
	}
	a.bytes += referenceBytes
	return uint16(n)
}

// keeps tells whether the sampling in force keeps a trace. Trace ids are meant to
// be random, but their bits are mixed all the same.
func (a *Assembler) keeps(id [16]byte) bool {
	h := delta.Mix(binary.LittleEndian.Uint64(id[:8])+a.cfg.Seed, binary.LittleEndian.Uint64(id[8:]))
	return h>>1&(1<<a.level-1) == 0
}

// maxLevel keeps one trace in a million.
const maxLevel = 20

// shed raises the sampling until what is kept fits into the budget. A trace that
// is too large for it at the highest level is dropped, too; what still arrives of
// it looks like a trace that lost its beginning.
func (a *Assembler) shed(now time.Time) {
	for a.bytes > a.cfg.Memory && a.level < maxLevel {
		a.raise()
	}
	if a.bytes > a.cfg.Memory {
		for _, t := range a.traces {
			a.drop(t)
		}
		a.lowered = now
	}
	a.free = nil
	a.calm = time.Time{}
}

// raise raises the sampling by one level.
func (a *Assembler) raise() {
	a.level++
	for k, t := range a.traces {
		if !a.keeps(k.id) {
			a.drop(t)
		}
	}
}

func (a *Assembler) drop(t *openTrace) {
	a.dropped += uint64(len(t.records))
	a.remove(t)
}

// relax lowers the sampling by one level when memory has been low for a whole
// maximum trace duration.
func (a *Assembler) relax(now time.Time) {
	if a.level == 0 || a.bytes > a.cfg.Memory/4 {
		a.calm = time.Time{}
		return
	}
	if a.calm.IsZero() {
		a.calm = now
	}
	if now.Sub(a.calm) >= a.cfg.Max {
		a.level--
		a.lowered, a.calm = now, now
	}
}

func (a *Assembler) org(id string) uint32 {
	n, ok := a.orgs[id]
	if !ok {
		n = uint32(len(a.orgIDs))
		a.orgs[id] = n
		a.orgIDs = append(a.orgIDs, id)
	}
	return n
}

// maxFreeRecords is the size up to which a closed trace's memory is used again.
const maxFreeRecords = 1024

// remove forgets a trace and keeps its memory for another.
func (a *Assembler) remove(t *openTrace) {
	delete(a.traces, t.key)
	a.arrived.remove(t)
	a.end(t)
	a.spans -= len(t.records)
	a.bytes -= traceBytes + cap(t.records)*recordBytes + cap(t.entries)*entryBytes + len(t.resources)*referenceBytes
	for _, seq := range t.entries {
		a.ledger.release(seq)
	}
	for _, r := range t.resources {
		if r.held--; r.held == 0 {
			a.bytes -= r.size()
		}
	}
	if t.names.traces--; t.names.traces == 0 {
		a.nameBytes -= t.names.bytes
		if t.names == a.names {
			a.names = newNames()
		}
	}
	if cap(t.records) > maxFreeRecords || len(a.free) > len(a.traces)+1024 {
		return
	}
	clear(t.resources)
	*t = openTrace{resources: t.resources[:0], records: t.records[:0], entries: t.entries[:0]}
	a.free = append(a.free, t)
}

// Stats returns how full the assembler is.
func (a *Assembler) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Stats{
		Traces: len(a.traces), Spans: a.spans, Bytes: a.bytes,
		SamplingRate: 1 / float64(uint64(1)<<a.level), Dropped: a.dropped, JournalBytes: a.ledger.bytes,
	}
}

// Expire closes the traces whose time has come by now and adds their verdicts to
// d, as far as they fall into the window that starts at windowStart (Unix
// nanoseconds).
func (a *Assembler) Expire(now time.Time, windowStart uint64, d *delta.Delta) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.catchUp(now)
	a.due, _ = choose(a.expired(now), math.MaxInt, a.due[:0])
	a.close(a.due, windowStart, true, d)
	a.relax(now)
}

// Flush closes all traces. When complete is false their missing spans may still
// be on the way (a shutdown), and SPA-002 is left out.
func (a *Assembler) Flush(windowStart uint64, complete bool, d *delta.Delta) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due, _ = choose(a.all, math.MaxInt, a.due[:0])
	a.close(a.due, windowStart, complete, d)
}

// ahead tells whether traces wait for a clock that went back, as the store's may after
// a failover.
func (a *Assembler) ahead(now time.Time) bool {
	t := a.arrived.front
	return t != nil && t.last.Sub(now) > a.cfg.Idle
}

// catchUp takes what lies ahead of now for now, if traces wait for it.
func (a *Assembler) catchUp(now time.Time) {
	if !a.ahead(now) {
		return
	}
	earlier := func(at *time.Time) {
		if at.After(now) {
			*at = now
		}
	}
	for _, t := range a.traces {
		earlier(&t.first)
		earlier(&t.last)
	}
	earlier(&a.lowered)
	earlier(&a.calm)
}

// expired yields the traces whose time has come by now: those that were idle for
// longest, then those that began first.
func (a *Assembler) expired(now time.Time) iter.Seq[*openTrace] {
	return func(yield func(*openTrace) bool) {
		idle := func(t *openTrace) bool { return now.Sub(t.last) >= a.cfg.Idle }
		for t := a.arrived.front; t != nil && idle(t); t = t.arrived.next {
			if !yield(t) {
				return
			}
		}
		for t := a.started.front; t != nil && now.Sub(t.first) >= a.cfg.Max; t = t.started.next {
			if !idle(t) && !yield(t) {
				return
			}
		}
	}
}

// all yields all open traces, those that began first before the others.
func (a *Assembler) all(yield func(*openTrace) bool) {
	for t := a.started.front; t != nil && yield(t); t = t.started.next {
	}
}

// choose appends traces, so many at most, and marks them. It tells whether there are
// more.
func choose(traces iter.Seq[*openTrace], most int, due []*openTrace) (_ []*openTrace, more bool) {
	for t := range traces {
		if len(due) >= most {
			return due, true
		}
		t.closing = true
		due = append(due, t)
	}
	return due, false
}

func (a *Assembler) close(due []*openTrace, windowStart uint64, complete bool, d *delta.Delta) {
	a.verdicts(due, windowStart, complete, d)
	for _, t := range due {
		a.remove(t)
	}
	clear(due)
}

// verdicts adds the verdicts on traces to d. It leaves them open.
func (a *Assembler) verdicts(due []*openTrace, windowStart uint64, complete bool, d *delta.Delta) {
	defer a.judge.forget()
	for _, t := range due {
		if t.time < windowStart {
			continue
		}
		a.judge.trace(t, judgement{
			organization: a.orgIDs[t.key.org],
			bucket:       delta.BucketOf(t.time, a.cfg.Step),
			parents:      complete && !t.partial,
			rate:         1 / float64(uint64(1)<<max(t.level, a.level)),
			filter:       a.cfg.Filter,
		}, d)
	}
}
