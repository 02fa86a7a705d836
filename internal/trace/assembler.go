// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
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
}

// Assembler holds open traces. It may be used concurrently.
type Assembler struct {
	cfg Config

	mu      sync.Mutex
	traces  map[key]*openTrace
	orgs    map[string]uint32
	orgIDs  []string
	arrived list // by newest arrival
	started list // by first arrival
	free    []*openTrace
	names   *names // for the traces opened from now on
	judge   judge

	spans, bytes int
	nameBytes    int // of all tables of names in use
	dropped      uint64

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
	k := key{org: a.org(organizationID)}
	var t *openTrace
	for i := range spans {
		s := &spans[i]
		if s.TraceID == ([16]byte{}) {
			continue
		}
		if t == nil || s.TraceID != t.key.id {
			k.id = s.TraceID
			t = a.trace(now, k)
			if t == nil {
				a.dropped++
				continue
			}
		}
		a.add(t, s)
	}
	if a.bytes > a.cfg.Memory {
		a.shed(now)
	}
}

// trace returns the open trace of a key, opened when it is new; nil when the
// sampling in force drops it.
func (a *Assembler) trace(now time.Time, k key) *openTrace {
	if t := a.traces[k]; t != nil {
		t.last = now
		a.arrived.moveToBack(t)
		return t
	}
	if !a.keeps(k.id) {
		return nil
	}
	if len(a.free) == 0 {
		a.grow()
	}
	last := len(a.free) - 1
	t := a.free[last]
	a.free[last] = nil
	a.free = a.free[:last]
	t.key, t.level, t.first, t.last, t.names = k, a.level, now, now, a.names
	t.partial = !a.lowered.IsZero() && now.Sub(a.lowered) < a.cfg.Idle
	t.names.traces++
	a.traces[k] = t
	a.arrived.pushBack(t)
	a.started.pushBack(t)
	a.bytes += traceBytes + cap(t.records)*recordBytes
	return t
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

func (a *Assembler) add(t *openTrace, s *Span) {
	r := record{id: binary.LittleEndian.Uint64(s.SpanID[:]), parent: binary.LittleEndian.Uint64(s.ParentID[:]), name: a.intern(t.names, s), resource: a.resource(t, s.Resource)}
	if s.Internal {
		r.flags |= flagInternal
	}
	if s.Short {
		r.flags |= flagShort
	}
	before := cap(t.records)
	t.records = append(t.records, r)
	a.bytes += (cap(t.records) - before) * recordBytes
	a.spans++
	t.time = max(t.time, s.Time)
}

// intern returns the number of a name in a table. Past the share of the budget
// that names may take, new ones are left out of the evidence.
func (a *Assembler) intern(n *names, s *Span) uint32 {
	before := n.bytes
	i := n.intern(s.NameHash, s.Name, a.nameBytes < a.cfg.Memory/8)
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
		a.level++
		for k, t := range a.traces {
			if !a.keeps(k.id) {
				a.drop(t)
			}
		}
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
	a.started.remove(t)
	a.spans -= len(t.records)
	a.bytes -= traceBytes + cap(t.records)*recordBytes + len(t.resources)*referenceBytes
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
	*t = openTrace{resources: t.resources[:0], records: t.records[:0]}
	a.free = append(a.free, t)
}

// Stats returns how full the assembler is.
func (a *Assembler) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Stats{
		Traces: len(a.traces), Spans: a.spans, Bytes: a.bytes,
		SamplingRate: 1 / float64(uint64(1)<<a.level), Dropped: a.dropped,
	}
}

// Expire closes the traces whose time has come by now and adds their verdicts to
// d, as far as they fall into the window that starts at windowStart (Unix
// nanoseconds).
func (a *Assembler) Expire(now time.Time, windowStart uint64, d *delta.Delta) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.judge.forget()
	for t := a.arrived.front; t != nil && now.Sub(t.last) >= a.cfg.Idle; t = a.arrived.front {
		a.close(t, windowStart, true, d)
	}
	for t := a.started.front; t != nil && now.Sub(t.first) >= a.cfg.Max; t = a.started.front {
		a.close(t, windowStart, true, d)
	}
	a.relax(now)
}

// Flush closes all traces. When complete is false their missing spans may still
// be on the way (a shutdown), and SPA-002 is left out.
func (a *Assembler) Flush(windowStart uint64, complete bool, d *delta.Delta) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.judge.forget()
	for t := a.started.front; t != nil; t = a.started.front {
		a.close(t, windowStart, complete, d)
	}
}

func (a *Assembler) close(t *openTrace, windowStart uint64, complete bool, d *delta.Delta) {
	if t.time >= windowStart {
		a.judge.trace(t, judgement{
			organization: a.orgIDs[t.key.org],
			bucket:       delta.BucketOf(t.time, a.cfg.Step),
			parents:      complete && !t.partial,
			rate:         1 / float64(uint64(1)<<max(t.level, a.level)),
			filter:       a.cfg.Filter,
		}, d)
	}
	a.remove(t)
}
