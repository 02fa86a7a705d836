// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"context"
	"encoding/hex"
	"strings"
	"time"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// The limits of the trace rules: a trace fails above them.
const (
	maxInternalSpans = 10 // SPA-001, per service
	maxShortSpans    = 20 // SPA-005, per trace
)

// Limits of what is evaluated at a time, so that transactions stay small. A Piece ends
// with the trace that reaches one of its limits. Evidence of a trace beyond its limit is
// left out.
const (
	maxPieces        = 64      // organizations
	maxPieceTraces   = 20_000  // traces of a Piece
	maxPieceVerdicts = 1 << 16 // verdicts on a service in a trace
	maxPieceServices = 1 << 12 // different services and hours
	maxPieceItems    = 1 << 14 // names as evidence
	maxTraceItems    = 1 << 12 // names as evidence, of one trace
)

// Due says which traces to evaluate.
type Due struct {
	Now         time.Time
	All         bool   // open traces, or else those that are due at Now
	Incomplete  bool   // missing spans may still be on the way: SPA-002 is left out
	WindowStart uint64 // Unix nanoseconds: traces before it have no verdict

	// Limit returns how many traces of an organization to evaluate at a time, at least 1;
	// nil means as many as a Piece can hold.
	Limit func(organizationID string) int
}

// Piece is the verdicts on some traces of one organization, to be committed in one
// transaction. Its traces stay open until Transaction.Close and Commit. A Piece must be
// released.
type Piece struct {
	a        *Assembler
	tenant   *tenant
	traces   []evaluated
	services []serviceVerdict
	items    []verdictItem
	rows     int // different services and hours
}

// full reports whether the Piece has reached a limit.
func (p *Piece) full() bool {
	return len(p.a.judge.known) >= maxPieceServices || len(p.services) >= maxPieceVerdicts || len(p.items) >= maxPieceItems
}

// evaluated is a trace as it was when it was evaluated.
type evaluated struct {
	trace      *openTrace
	generation uint64
	id         [16]byte
	records    int
	partial    bool
	overdue    bool // past its maximum age: spans that arrive meanwhile do not put it off
	// Where its services and items begin and end in the Piece.
	services, servicesEnd int
	items, itemsEnd       int
	time                  uint64
	rate                  float64
	bucket                delta.Bucket
}

// current reports whether the trace is as it was when it was evaluated. The assembler
// is locked.
func (e *evaluated) current() bool {
	t := e.trace
	return t.generation == e.generation && (len(t.records) == e.records || e.overdue) && t.partial == e.partial
}

// The trace rules by their place in a verdict.
const (
	placeInternal = iota
	placeOrphan
	placeShort
	places
)

var ruleOf = [places]catalog.Rule{catalog.SPA001, catalog.SPA002, catalog.SPA005}

// serviceVerdict is the verdict on what one service did in a trace.
type serviceVerdict struct {
	resource *Resource         // the first one seen
	counts   [places]int       // spans that are internal, orphans, short
	children int               // spans with a parent
	fails    [places]bool      // the rule
	last     [places]*Resource // of the last failing span
	items    [places]uint8     // evidence
	facts    *delta.Service    // that the verdict was merged into last
}

// verdictItem is the name of a span as evidence of a service's failure.
type verdictItem struct {
	service int32 // in the trace
	place   uint8
	name    string
}

// Rows returns about how many rows a store writes for the verdicts.
func (p *Piece) Rows() int { return 1 + p.rows }

// Traces returns how many traces the verdicts are on.
func (p *Piece) Traces() int { return len(p.traces) }

// Organization returns the id of the organization whose traces these are.
func (p *Piece) Organization() string { return p.tenant.id }

// Release ends the use of a Piece. Traces that are still open can be evaluated again.
func (p *Piece) Release() {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	p.release()
}

func (p *Piece) release() {
	for i := range p.traces {
		if e := &p.traces[i]; e.trace.generation == e.generation {
			e.trace.evaluated = false
		}
	}
	p.traces = nil
}

// maxFailures is how many transactions with the verdict on one trace may fail.
const maxFailures = 3

// Failed notes that a transaction with the verdict on a single trace failed and nothing
// else was in it. It reports whether to drop the trace: after several times, between
// which other transactions have committed, of which commits counts. Before
// that, it is evaluated again after an idle period, so that others are not delayed.
func (p *Piece) Failed(now time.Time, commits uint64) (drop bool) {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	if len(p.traces) != 1 || p.traces[0].trace.generation != p.traces[0].generation {
		return false
	}
	t := p.traces[0].trace
	if t.failures == 0 || commits != t.commits {
		t.failures++
	}
	if t.commits = commits; t.failures > 1 {
		t.retry = now.Add(p.a.cfg.Idle)
	}
	return t.failures >= maxFailures
}

// Drop takes the verdicts out of the Piece: its traces close without them.
func (p *Piece) Drop() {
	for i := range p.traces {
		t := &p.traces[i]
		t.servicesEnd, t.itemsEnd = t.services, t.items
	}
	p.services, p.items, p.rows = nil, nil, 0
}

// String returns the ids of the first traces.
func (p *Piece) String() string {
	const most = 3
	var ids []string
	for i := range min(most, len(p.traces)) {
		ids = append(ids, hex.EncodeToString(p.traces[i].id[:]))
	}
	if len(p.traces) > most {
		ids = append(ids, "...")
	}
	return strings.Join(ids, " ")
}

// Evaluate evaluates traces of organizations in turn and returns their verdicts, and
// whether more are due. The work is linear in the spans; requests go on meanwhile.
// It returns early when ctx ends. Traces of a Piece that has not been released are not
// evaluated again.
func (a *Assembler) Evaluate(ctx context.Context, due Due) (pieces []*Piece, more bool) {
	a.evaluation.Lock()
	defer a.evaluation.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.tenants)
	first := a.turn
	for i := range n {
		o := a.tenants[(first+i)%n]
		if !due.All {
			a.catchUp(o, due.Now)
		}
		if len(pieces) == maxPieces || ctx.Err() != nil {
			a.turn = int(o.number)
			return pieces, true
		}
		p, left := a.piece(ctx, o, due)
		if p != nil {
			pieces = append(pieces, p)
		}
		more = more || left
	}
	return pieces, more
}

// piece evaluates traces of one organization. The lock is not held while it does.
func (a *Assembler) piece(ctx context.Context, o *tenant, due Due) (p *Piece, more bool) {
	most := maxPieceTraces
	if due.Limit != nil {
		most = min(most, due.Limit(o.id))
	}
	chosen, more := a.due(o, due, most)
	if len(chosen) == 0 {
		return nil, more
	}
	p = &Piece{a: a, tenant: o, traces: make([]evaluated, 0, len(chosen)), services: make([]serviceVerdict, 0, 2*len(chosen))}
	a.snapshots = a.snapshots[:0]
	for _, t := range chosen {
		t.evaluated, t.reading = true, true
		a.snapshots = append(a.snapshots, a.snapshot(t, due))
	}
	a.mu.Unlock()
	done := 0
	for done < len(chosen) && (done == 0 || !p.full() && ctx.Err() == nil) {
		a.judge.trace(&a.snapshots[done], due, a.cfg.Step, p)
		done++
	}
	p.rows = len(a.judge.known)
	clear(a.snapshots)
	if len(a.judge.known) > maxPieceServices {
		a.judge.known = make(map[uint64]struct{}) // clearing a map keeps its size
	}
	clear(a.judge.known)
	a.mu.Lock()
	for i, t := range chosen {
		t.evaluated, t.reading = i < done, false
	}
	clear(chosen)
	return p, more || done < len(chosen)
}

// due returns traces of an organization to evaluate: those that were idle for longest,
// then those that began first.
func (a *Assembler) due(o *tenant, due Due, most int) (chosen []*openTrace, more bool) {
	chosen = a.chosen[:0]
	defer func() { a.chosen = chosen }()
	add := func(t *openTrace) bool {
		if t.evaluated || !due.All && t.retry.After(due.Now) {
			return true
		}
		if len(chosen) == most {
			more = true
			return false
		}
		chosen = append(chosen, t)
		return true
	}
	if due.All {
		for t := o.started.front; t != nil && add(t); t = t.started.next {
		}
		return chosen, more
	}
	idle := func(t *openTrace) bool { return due.Now.Sub(t.last) >= a.cfg.Idle }
	for t := o.arrived.front; t != nil && idle(t); t = t.arrived.next {
		if !add(t) {
			return chosen, more
		}
	}
	for t := o.started.front; t != nil && due.Now.Sub(t.first) >= a.cfg.Max; t = t.started.next {
		if !idle(t) && !add(t) {
			break
		}
	}
	return chosen, more
}

// snapshot is what a verdict on a trace follows from. Spans, resources and names are
// only ever appended, so that it can be read without the lock.
type snapshot struct {
	trace      *openTrace
	generation uint64
	id         [16]byte
	records    []record
	resources  []*Resource
	names      names // its texts
	time       uint64
	rate       float64
	partial    bool
	overdue    bool
}

func (a *Assembler) snapshot(t *openTrace, due Due) snapshot {
	return snapshot{
		trace: t, generation: t.generation, id: t.key.id, records: t.records, resources: t.resources, names: names{texts: t.names.texts},
		time: t.time, rate: rate(max(t.level, t.of.level)), partial: t.partial,
		overdue: !due.All && due.Now.Sub(t.first) >= a.cfg.Max,
	}
}

// judge evaluates one trace at a time and keeps its memory.
type judge struct {
	byHash     map[uint64]int // index in services, once they are many
	ofResource []int          // index in services by index of the resource; -1: not judged
	ids        map[uint64]struct{}
	orphans    []uint64            // one bit for each span
	known      map[uint64]struct{} // services and buckets of the Piece in hand
	bucket     uint64
	steps      uint64 // spans and services looked at, for tests
}

// trace adds the verdict on a trace to p.
func (j *judge) trace(t *snapshot, due Due, step time.Duration, p *Piece) {
	e := evaluated{
		trace: t.trace, generation: t.generation, id: t.id, records: len(t.records), partial: t.partial, overdue: t.overdue, time: t.time, rate: t.rate, bucket: delta.BucketOf(t.time, step),
		services: len(p.services), items: len(p.items),
	}
	if t.time >= due.WindowStart {
		j.bucket = uint64(e.bucket)
		j.reset(t, p)
		services := p.services[e.services:]
		fails := j.count(t, services, !due.Incomplete && !t.partial)
		if fails {
			j.evidence(t, services, p)
		}
	}
	e.servicesEnd, e.itemsEnd = len(p.services), len(p.items)
	p.traces = append(p.traces, e)
}

// smallTrace is the number of spans up to which a linear search for a parent
// beats building a set.
const smallTrace = 16

// reset adds the services of a trace to p and prepares the search for parents.
func (j *judge) reset(t *snapshot, p *Piece) {
	j.ofResource = j.ofResource[:0]
	clear(j.byHash)
	from := len(p.services)
	for _, r := range t.resources {
		i := -1
		if !r.Unjudged {
			i = j.service(p, from, r)
		}
		j.ofResource = append(j.ofResource, i)
	}
	j.steps += uint64(len(t.resources))
	if len(j.ids) > 1<<16 {
		j.ids = nil // clearing a map keeps its size
	}
	clear(j.ids)
	if len(t.records) > smallTrace {
		if j.ids == nil {
			j.ids = make(map[uint64]struct{})
		}
		for i := range t.records {
			j.ids[t.records[i].id] = struct{}{}
		}
		j.steps += uint64(len(t.records))
	}
}

// service returns the index of a resource's service among those of the trace, which
// begin at from.
func (j *judge) service(p *Piece, from int, r *Resource) int {
	services := p.services[from:]
	n := len(services)
	if n <= scanned {
		for i := range services {
			if services[i].resource.Hash == r.Hash {
				return i
			}
		}
	} else if i, ok := j.byHash[r.Hash]; ok {
		return i
	}
	p.services = append(p.services, serviceVerdict{resource: r})
	j.known[delta.Mix(r.Hash, j.bucket)] = struct{}{}
	if n == scanned {
		if j.byHash == nil {
			j.byHash = make(map[uint64]int)
		}
		for i, s := range p.services[from:] {
			j.byHash[s.resource.Hash] = i
		}
	} else if n > scanned {
		j.byHash[r.Hash] = n
	}
	return n
}

// has reports whether a span is in the trace.
func (j *judge) has(t *snapshot, id uint64) bool {
	if len(t.records) > smallTrace {
		_, ok := j.ids[id]
		return ok
	}
	for i := range t.records {
		if t.records[i].id == id {
			return true
		}
	}
	return false
}

// count counts the spans of each service and reports whether any rule fails. parents
// says that SPA-002 can be evaluated.
func (j *judge) count(t *snapshot, services []serviceVerdict, parents bool) (fails bool) {
	words := (len(t.records) + 63) / 64
	if cap(j.orphans) < words {
		j.orphans = make([]uint64, words)
	}
	j.orphans = j.orphans[:words]
	clear(j.orphans)
	short := 0
	j.steps += uint64(len(t.records) + len(services))
	for i := range t.records {
		r := &t.records[i]
		if r.flags&flagShort != 0 {
			short++
		}
		s := j.ofResource[r.resource]
		if s < 0 {
			continue
		}
		y := &services[s]
		if r.flags&flagInternal != 0 {
			y.counts[placeInternal]++
		}
		if r.flags&flagShort != 0 {
			y.counts[placeShort]++
		}
		if parents && r.parent != 0 {
			y.children++
			if !j.has(t, r.parent) {
				y.counts[placeOrphan]++
				j.orphans[i/64] |= 1 << (i % 64)
			}
		}
	}
	owner := -1
	for i := range services {
		y := &services[i]
		y.fails[placeInternal] = y.counts[placeInternal] > maxInternalSpans
		y.fails[placeOrphan] = y.counts[placeOrphan] > 0
		fails = fails || y.fails[placeInternal] || y.fails[placeOrphan]
		if short <= maxShortSpans {
			continue
		}
		// What arrived first differs from one replica, or one try, to another.
		if owner >= 0 {
			o := &services[owner]
			if c := cmp.Compare(y.counts[placeShort], o.counts[placeShort]); c < 0 || c == 0 && !before(y.resource, o.resource) {
				continue
			}
		}
		owner = i
	}
	if owner >= 0 {
		services[owner].fails[placeShort] = true
		return true
	}
	return fails
}

// before orders services by name, then by the rest of their keys.
func before(a, b *Resource) bool {
	x, y := &a.Service, &b.Service
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Namespace, y.Namespace),
		cmp.Compare(x.Environment, y.Environment), cmp.Compare(x.Version, y.Version)) < 0
}

// evidence adds the names of failing spans.
func (j *judge) evidence(t *snapshot, services []serviceVerdict, p *Piece) {
	from := len(p.items)
	j.steps += uint64(len(t.records))
	for i := range t.records {
		r := &t.records[i]
		s := j.ofResource[r.resource]
		if s < 0 {
			continue
		}
		y := &services[s]
		matches := [places]bool{
			r.flags&flagInternal != 0,
			j.orphans[i/64]&(1<<(i%64)) != 0,
			r.flags&flagShort != 0,
		}
		for place, matches := range matches {
			if !matches || !y.fails[place] {
				continue
			}
			y.last[place] = t.resources[r.resource]
			if y.items[place] == delta.MaxItems || len(p.items)-from == maxTraceItems {
				continue
			}
			if name := t.names.text(r.name); name != "" {
				p.items = append(p.items, verdictItem{service: int32(s), place: uint8(place), name: name})
				y.items[place]++
			}
		}
	}
}

// merge adds the verdict on one trace to d. The facts of services that earlier ones were
// on are known by the hash of the service.
func (p *Piece) merge(d *delta.Delta, known map[uint64]*delta.Service, e *evaluated) {
	if e.services == e.servicesEnd {
		return
	}
	services := p.services[e.services:e.servicesEnd]
	filter := p.a.cfg.Filter
	for i := range services {
		y := &services[i]
		s := known[y.resource.Hash]
		if s == nil {
			s = d.Organization(p.tenant.id).Service(y.resource.Service)
			known[y.resource.Hash] = s
		}
		y.facts = s
		s.Seen(e.time)
		c := s.Counts(e.bucket)
		c[catalog.SPA001].Observed++
		c[catalog.SPA005].Observed++
		c[catalog.SPA002].Observed += uint64(y.children)
		failures := [places]uint64{1, uint64(y.counts[placeOrphan]), 1}
		for place, fails := range y.fails {
			if !fails {
				continue
			}
			c[ruleOf[place]].Failed += failures[place]
			d.AddExample(filter, s, y.resource.Hash, ruleOf[place], delta.Example{
				TimeUnixNano: e.time, Signal: delta.Traces, TraceID: e.id,
				ResourceAttributes: y.last[place].Attributes, SamplingRate: e.rate,
			})
		}
	}
	for _, it := range p.items[e.items:e.itemsEnd] {
		y := &services[it.service]
		d.AddItem(filter, y.facts, y.resource.Hash, delta.Item{Rule: ruleOf[it.place], List: delta.SpanNames, Text: it.name}, e.bucket)
	}
}
