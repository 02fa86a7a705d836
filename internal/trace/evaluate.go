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

// Limits of the trace rules. A trace fails above them.
const (
	maxInternalSpans = 10 // SPA-001, per service
	maxShortSpans    = 20 // SPA-005, per trace
)

// Limits per Piece, to keep transactions small. A Piece ends with the trace that reaches one of the limits. Evidence
// of a trace beyond its limit is dropped.
const (
	maxPieces        = 64      // Pieces, one per organization
	maxPieceTraces   = 20_000  // traces
	maxPieceVerdicts = 1 << 16 // verdicts for a service in a trace
	maxPieceServices = 1 << 12 // distinct services and hours, and rows for evidence
	maxPieceItems    = 1 << 14 // span names as evidence
	maxTraceItems    = 1 << 12 // span names as evidence, per trace
	maxTraceEvidence = 1 << 8  // failing services with evidence, per trace
)

// Due selects the traces to evaluate.
type Due struct {
	Now         time.Time
	All         bool   // all open traces, not only those due at Now
	Incomplete  bool   // spans may still arrive: do not evaluate SPA-002
	WindowStart uint64 // Unix nanoseconds; traces before it get no verdict

	// Limit returns the maximum number of traces of an organization to evaluate at a time, at least 1. nil means as
	// many as a Piece can hold.
	Limit func(organizationID string) int
}

// Piece holds the verdicts for some traces of one organization, to be committed in one transaction. Its traces stay
// open until Transaction.Close and Commit. The caller must Release a Piece.
type Piece struct {
	a        *Assembler
	tenant   *tenant
	traces   []evaluated
	services []serviceVerdict
	items    []verdictItem
	rows     int // see evaluator.pieceRows
}

// full reports whether the Piece has reached a limit.
func (p *Piece) full() bool {
	return p.a.evaluator.pieceRows() >= maxPieceServices || len(p.services) >= maxPieceVerdicts || len(p.items) >= maxPieceItems
}

// evaluated is the state of a trace at its evaluation.
type evaluated struct {
	trace      *openTrace
	generation uint64
	id         [16]byte
	records    int
	partial    bool
	overdue    bool // past its maximum age: closes even if spans have arrived since
	// Ranges of its services and items in the Piece.
	services, servicesEnd int
	items, itemsEnd       int
	time                  uint64
	rate                  float64
	bucket                delta.Bucket
}

// current reports whether the trace is unchanged since its evaluation. The caller holds the lock of the Assembler.
func (e *evaluated) current() bool {
	t := e.trace
	return t.generation == e.generation && (len(t.records) == e.records || e.overdue) && t.partial == e.partial
}

// Indexes of the trace rules in a verdict.
const (
	placeInternal = iota
	placeOrphan
	placeShort
	places
)

var ruleOf = [places]catalog.Rule{catalog.SPA001, catalog.SPA002, catalog.SPA005}

// serviceVerdict is the verdict for one service in a trace.
type serviceVerdict struct {
	resource *Resource         // the first one found
	facts    *delta.Service    // the last destination of merge
	last     [places]*Resource // of the last failing span, by rule
	counts   [places]int32     // internal, orphan and short spans
	children int32             // spans with a parent
	fails    [places]bool      // by rule
	shown    bool              // it has evidence
	items    [places]uint8     // number of evidence items, by rule
}

func (y *serviceVerdict) manyInternal() bool { return y.counts[placeInternal] > maxInternalSpans }

// verdictItem is a span name as evidence of a service's failure.
type verdictItem struct {
	service int32 // index in the trace
	place   uint8
	name    string
}

func (it *verdictItem) item() delta.Item {
	return delta.Item{Rule: ruleOf[it.place], List: delta.SpanNames, Text: it.name}
}

// Rows returns an estimate of the rows that a store writes for the verdicts.
func (p *Piece) Rows() int { return 1 + p.rows }

// Traces returns the number of traces in the Piece.
func (p *Piece) Traces() int { return len(p.traces) }

// Organization returns the organization id of the traces.
func (p *Piece) Organization() string { return p.tenant.id }

// Release releases the Piece. Its traces that are still open can be evaluated again.
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

// maxFailures limits the failed transactions with the verdict for one trace.
const maxFailures = 3

// Failed records that a transaction with nothing but the verdict for a single trace failed. commits is the number of
// commits so far. Failed reports whether to drop the trace: after maxFailures failures with commits of other
// transactions in between. Until then, the trace is evaluated again after an idle period, so that it does not delay
// others.
func (p *Piece) Failed(now time.Time, commits uint64) (drop bool) {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	if len(p.traces) != 1 || p.traces[0].trace.generation != p.traces[0].generation {
		return false
	}
	t := p.traces[0].trace
	if t.failures == nil {
		t.failures = new(failures)
	}
	f := t.failures
	if f.count == 0 || commits != f.commits {
		f.count++
	}
	if f.commits = commits; f.count > 1 {
		f.retry = now.Add(p.a.cfg.Idle).UnixNano()
	}
	return f.count >= maxFailures
}

// Drop removes the verdicts from the Piece. Its traces close without a verdict.
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

// Evaluate evaluates traces of the organizations in turn. It returns their verdicts and whether more traces are due.
// Its work is linear in the spans and does not block Add. It returns early when ctx ends. Traces in an unreleased
// Piece are not evaluated again.
func (a *Assembler) Evaluate(ctx context.Context, due Due) (pieces []*Piece, more bool) {
	a.evaluation.Lock()
	defer a.evaluation.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.tenants)
	first := a.nextTenant
	if !due.All {
		a.catchUpSampling(&a.initial, due.Now)
	}
	for i := range n {
		o := a.tenants[(first+i)%n]
		if !due.All {
			a.catchUp(o, due.Now)
		}
		if len(pieces) == maxPieces || ctx.Err() != nil {
			a.nextTenant = int(o.number)
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

// piece evaluates traces of one organization, without holding the lock during the evaluation.
func (a *Assembler) piece(ctx context.Context, o *tenant, due Due) (p *Piece, more bool) {
	most := maxPieceTraces
	if due.Limit != nil {
		most = min(most, due.Limit(o.id))
	}
	more = a.due(o, due, most)
	chosen := a.snapshots
	if len(chosen) == 0 {
		return nil, more
	}
	p = &Piece{a: a, tenant: o, traces: make([]evaluated, 0, len(chosen)), services: make([]serviceVerdict, 0, 2*len(chosen))}
	a.reading = o
	a.mu.Unlock()
	done := 0
	for done < len(chosen) && (done == 0 || !p.full() && ctx.Err() == nil) {
		if done%loadedAtOnce == 0 {
			a.evaluator.load(chosen[done:min(done+loadedAtOnce, len(chosen))])
		}
		a.evaluator.trace(&chosen[done], due, a.cfg.Step, p)
		done++
	}
	p.rows = a.evaluator.pieceRows()
	if len(a.evaluator.rows) > maxPieceServices { // clear would keep the memory of large maps
		a.evaluator.rows, a.evaluator.evident = make(map[uint64]struct{}), make(map[uint64]struct{})
	}
	clear(a.evaluator.rows)
	clear(a.evaluator.evident)
	a.mu.Lock()
	a.reading = nil
	for i := done; i < len(chosen); i++ {
		chosen[i].trace.evaluated = false
	}
	clear(chosen)
	return p, more || done < len(chosen)
}

// due takes snapshots of traces of an organization to evaluate: first those idle for longest, then those that began
// first. The traces are likely not in the caches of the processor, so it visits each one once.
func (a *Assembler) due(o *tenant, due Due, most int) (more bool) {
	a.snapshots = a.snapshots[:0]
	unsampled, now := 0, due.Now.UnixNano()
	add := func(t *openTrace) bool {
		if t.evaluated || !due.All && t.failures != nil && t.failures.retry > now {
			return true
		}
		if a.unsampled(t) { // commits drop them
			unsampled++
			return unsampled < maxPieceTraces
		}
		if len(a.snapshots) == most {
			more = true
			return false
		}
		t.evaluated = true
		a.snapshots = append(a.snapshots, a.snapshot(t, due))
		return true
	}
	if due.All {
		for t := o.started.front; t != nil && add(t); t = t.started.next {
		}
		return more
	}
	idle := func(t *openTrace) bool { return now-t.last >= int64(a.cfg.Idle) }
	for t := o.arrived.front; t != nil && idle(t); t = t.arrived.next {
		if !add(t) {
			return more
		}
	}
	for t := o.started.front; t != nil && now-t.first >= int64(a.cfg.Max); t = t.started.next {
		if !idle(t) && !add(t) {
			break
		}
	}
	return more
}

// snapshot holds the inputs of a verdict. Spans, resources and names are append-only, so they can be read without the
// lock.
type snapshot struct {
	trace      *openTrace
	generation uint64
	id         [16]byte
	records    []record
	resources  []*Resource
	names      []string
	time       uint64
	rate       float64
	partial    bool
	overdue    bool
}

func (a *Assembler) snapshot(t *openTrace, due Due) snapshot {
	return snapshot{
		trace: t, generation: t.generation, id: t.key.id, records: t.records, resources: t.resources, names: t.names.texts,
		time: t.time, rate: rate(max(t.level, t.of.level)), partial: t.partial,
		overdue: !due.All && due.Now.UnixNano()-t.first >= int64(a.cfg.Max),
	}
}

// evaluator evaluates one trace at a time and reuses its memory.
type evaluator struct {
	byHash     map[uint64]int // index in services, once there are many
	ofResource []int          // index in services by index of the resource; -1: not evaluated
	ids        map[uint64]struct{}
	most       int                      // largest size of ids
	counted    map[spanKey]uint16       // flags of counted spans, once there are many
	noted      map[verdictItem]struct{} // evidence of the current trace
	orphans    []uint64                 // one bit per span
	rows       map[uint64]struct{}      // services and buckets of the current Piece
	evident    map[uint64]struct{}      // services of the current Piece with new evidence
	bucket     uint64
	loaded     uint64 // result of load, without meaning
	steps      uint64 // spans and services visited, for tests
}

// spanKey identifies a span in a trace. A caller and a callee may share an id, as in Zipkin.
type spanKey struct {
	service int // index in services; -1: not evaluated
	id      uint64
}

// pieceRows returns an estimate of the rows that a store writes for the current Piece.
func (v *evaluator) pieceRows() int { return len(v.rows) + delta.EvidenceRows*len(v.evident) }

// loadedAtOnce is the number of traces whose spans are loaded at once.
const loadedAtOnce = 16

// load reads the first and last spans of traces. Most are not in the caches of the processor, and it waits for all of
// them at the same time instead of one after the other.
func (v *evaluator) load(traces []snapshot) {
	for i := range traces {
		t := &traces[i]
		if n := len(t.records); n > 0 {
			v.loaded += t.records[0].id + t.records[n-1].id
		}
		if len(t.resources) > 0 {
			v.loaded += t.resources[0].Hash
		}
	}
}

// trace adds the verdict for a trace to p.
func (v *evaluator) trace(t *snapshot, due Due, step time.Duration, p *Piece) {
	e := evaluated{
		trace: t.trace, generation: t.generation, id: t.id, records: len(t.records), partial: t.partial, overdue: t.overdue, time: t.time, rate: t.rate, bucket: delta.BucketOf(t.time, step),
		services: len(p.services), items: len(p.items),
	}
	if t.time >= due.WindowStart {
		v.bucket = uint64(e.bucket)
		v.reset(t, p)
		services := p.services[e.services:]
		fails := v.count(t, services, !due.Incomplete && !t.partial)
		if fails {
			v.evidence(t, services, p)
		}
	}
	e.servicesEnd, e.itemsEnd = len(p.services), len(p.items)
	p.traces = append(p.traces, e)
}

// maxCounted is the size of evaluator.counted whose memory is reused.
const maxCounted = 1 << 13

// smallTrace is the number of spans up to which a linear search for a parent is faster than building a set.
const smallTrace = 16

// reset adds the services of a trace to p and prepares the search for parents.
func (v *evaluator) reset(t *snapshot, p *Piece) {
	v.ofResource = v.ofResource[:0]
	clear(v.byHash)
	from := len(p.services)
	for _, r := range t.resources {
		i := -1
		if !r.ParentsOnly {
			i = v.service(p, from, r)
		}
		v.ofResource = append(v.ofResource, i)
	}
	v.steps += uint64(len(t.resources))
	if v.most > 8*max(len(t.records), 1<<10) {
		v.ids, v.most = nil, 0 // clear would keep the memory of a large map, and visit it for each trace
	}
	clear(v.ids)
	if len(t.records) > smallTrace {
		if v.ids == nil {
			v.ids = make(map[uint64]struct{})
		}
		for i := range t.records {
			v.ids[t.records[i].id] = struct{}{}
		}
		v.most = max(v.most, len(v.ids))
		v.steps += uint64(len(t.records))
	}
}

// service returns the index of a resource's service among the services of the trace, which start at from.
func (v *evaluator) service(p *Piece, from int, r *Resource) int {
	services := p.services[from:]
	n := len(services)
	if n <= scanned {
		for i := range services {
			if services[i].resource.Hash == r.Hash {
				return i
			}
		}
	} else if i, ok := v.byHash[r.Hash]; ok {
		return i
	}
	p.services = append(p.services, serviceVerdict{resource: r})
	v.rows[delta.Mix(r.Hash, v.bucket)] = struct{}{}
	if n == scanned {
		if v.byHash == nil {
			v.byHash = make(map[uint64]int)
		}
		for i, s := range p.services[from:] {
			v.byHash[s.resource.Hash] = i
		}
	} else if n > scanned {
		v.byHash[r.Hash] = n
	}
	return n
}

// has reports whether a span is in the trace.
func (v *evaluator) has(t *snapshot, id uint64) bool {
	if len(t.records) > smallTrace {
		_, ok := v.ids[id]
		return ok
	}
	for i := range t.records {
		if t.records[i].id == id {
			return true
		}
	}
	return false
}

// count counts the spans of each service and reports whether any rule fails. parents reports whether SPA-002 can be
// evaluated.
func (v *evaluator) count(t *snapshot, services []serviceVerdict, parents bool) (fails bool) {
	words := (len(t.records) + 63) / 64
	if cap(v.orphans) < words {
		v.orphans = make([]uint64, words)
	}
	v.orphans = v.orphans[:words]
	clear(v.orphans)
	short := 0
	v.steps += uint64(len(t.records) + len(services))
	for i := range t.records {
		r := &t.records[i]
		if r.flags&flagShort != 0 {
			short++
		}
		s := v.ofResource[r.resource]
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
			if !v.has(t, r.parent) {
				y.counts[placeOrphan]++
				v.orphans[i/64] |= 1 << (i % 64)
			}
		}
	}
	many := short > maxShortSpans
	for i := range services {
		many = many || services[i].manyInternal()
	}
	if many && v.repeated(t) {
		short = v.recount(t, services)
	}
	owner := -1
	for i := range services {
		y := &services[i]
		y.fails[placeInternal] = y.manyInternal()
		y.fails[placeOrphan] = y.counts[placeOrphan] > 0
		fails = fails || y.fails[placeInternal] || y.fails[placeOrphan]
		if short <= maxShortSpans {
			continue
		}
		// The order of arrival differs between replicas and attempts.
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

// repeated reports whether spans of the trace may have been received more than once.
func (v *evaluator) repeated(t *snapshot) bool {
	return len(t.records) <= smallTrace || len(v.ids) < len(t.records)
}

// recount counts the internal and short spans of each service, each span once however often it was received. It
// returns the number of short spans of all services. Most traces do not need it.
func (v *evaluator) recount(t *snapshot, services []serviceVerdict) (short int) {
	v.steps += uint64(len(t.records) + len(services))
	for i := range services {
		services[i].counts[placeInternal], services[i].counts[placeShort] = 0, 0
	}
	for i := range t.records {
		flags := v.uncounted(t, i)
		if flags&flagShort != 0 {
			short++
		}
		s := v.ofResource[t.records[i].resource]
		if s < 0 {
			continue
		}
		if flags&flagInternal != 0 {
			services[s].counts[placeInternal]++
		}
		if flags&flagShort != 0 {
			services[s].counts[placeShort]++
		}
	}
	if len(v.counted) > maxCounted { // clear would keep the memory of a large map
		v.counted = nil
	}
	clear(v.counted)
	return short
}

// uncounted returns the flags of record i without those of earlier records of the same span.
func (v *evaluator) uncounted(t *snapshot, i int) uint16 {
	r := &t.records[i]
	if r.id == 0 {
		return r.flags
	}
	k := spanKey{v.ofResource[r.resource], r.id}
	var counted uint16
	if len(t.records) > smallTrace {
		if v.counted == nil {
			v.counted = make(map[spanKey]uint16)
		}
		counted = v.counted[k]
		v.counted[k] = counted | r.flags
	} else {
		for j := range i {
			if o := &t.records[j]; o.id == k.id && v.ofResource[o.resource] == k.service {
				counted |= o.flags
			}
		}
	}
	return r.flags &^ counted
}

// before orders services by name, then by the rest of their keys.
func before(a, b *Resource) bool {
	x, y := &a.Service, &b.Service
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Namespace, y.Namespace),
		cmp.Compare(x.Environment, y.Environment), cmp.Compare(x.Version, y.Version)) < 0
}

// maxNoted is the size of evaluator.noted whose memory is reused.
const maxNoted = 1 << 8

// evidence adds the names of failing spans, each name once.
func (v *evaluator) evidence(t *snapshot, services []serviceVerdict, p *Piece) {
	from := len(p.items)
	v.steps += uint64(len(t.records) + len(services))
	if v.noted == nil || len(v.noted) > maxNoted { // clear would keep the memory of a large map
		v.noted = make(map[verdictItem]struct{})
	}
	clear(v.noted)
	shown := 0
	for i := range services {
		if y := &services[i]; shown < maxTraceEvidence && y.fails != ([places]bool{}) {
			y.shown = true
			shown++
		}
	}
	for i := range t.records {
		r := &t.records[i]
		s := v.ofResource[r.resource]
		if s < 0 || !services[s].shown {
			continue
		}
		y := &services[s]
		matches := [places]bool{
			r.flags&flagInternal != 0,
			v.orphans[i/64]&(1<<(i%64)) != 0,
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
			it := verdictItem{service: int32(s), place: uint8(place), name: nameText(t.names, r.name)}
			if it.name == "" {
				continue
			}
			if _, ok := v.noted[it]; !ok {
				v.noted[it] = struct{}{}
				p.items = append(p.items, it)
				y.items[place]++
			}
		}
	}
	filter := p.a.cfg.Filter
	for i := range services {
		y := &services[i]
		for place, fails := range y.fails {
			if fails && y.shown && !filter.HasExample(y.resource.Hash, ruleOf[place], t.time) {
				v.evident[y.resource.Hash] = struct{}{}
			}
		}
	}
	for _, it := range p.items[from:] {
		y := &services[it.service]
		if !filter.HasItem(y.resource.Hash, it.item(), delta.Bucket(v.bucket)) {
			v.evident[y.resource.Hash] = struct{}{}
		}
	}
}

// merge adds the verdict for one trace to d. known caches the facts of services by service hash.
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
			if y.last[place] == nil { // beyond maxTraceEvidence
				continue
			}
			d.AddExample(filter, s, y.resource.Hash, ruleOf[place], delta.Example{
				TimeUnixNano: e.time, Signal: delta.Traces, TraceID: e.id,
				ResourceAttributes: y.last[place].Attributes, SamplingRate: e.rate,
			})
		}
	}
	for _, it := range p.items[e.items:e.itemsEnd] {
		y := &services[it.service]
		d.AddItem(filter, y.facts, y.resource.Hash, it.item(), e.bucket)
	}
}
