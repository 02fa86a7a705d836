// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// The limits of the trace rules: a trace fails above them.
const (
	maxInternalSpans = 10 // SPA-001, per service
	maxShortSpans    = 20 // SPA-005, per trace
)

// judgement is what a closed trace is judged under.
type judgement struct {
	organization string
	bucket       delta.Bucket
	parents      bool // SPA-002 can be told
	rate         float64
	filter       *delta.Filter
}

// judge holds the scratch memory for judging one trace at a time.
type judge struct {
	services []tally
	byHash   map[uint64]int // index in services, once they are many
	ofRes    []int          // index in services by index of the resource; -1: not judged
	ids      map[uint64]struct{}

	// The facts that verdicts go to, by the hash of organization and service.
	facts map[uint64]*delta.Service
}

// forget ends the use of the facts that verdicts went to.
func (j *judge) forget() { j.facts = nil }

// tally is what one service did in the trace.
type tally struct {
	resource          *Resource // the first one seen
	internal, short   int
	children, orphans int
}

// trace judges one closed trace.
func (j *judge) trace(t *openTrace, in judgement, d *delta.Delta) {
	j.reset(t)
	short := 0
	for i := range t.records {
		r := &t.records[i]
		if r.flags&flagShort != 0 {
			short++
		}
		s := j.ofRes[r.resource]
		if s < 0 {
			continue
		}
		y := &j.services[s]
		if r.flags&flagInternal != 0 {
			y.internal++
		}
		if r.flags&flagShort != 0 {
			y.short++
		}
		if in.parents && r.parent != 0 {
			y.children++
			if !j.has(t, r.parent) {
				y.orphans++
			}
		}
	}
	if len(j.services) == 0 {
		return
	}
	owner := -1
	if short > maxShortSpans {
		owner = 0
		for i := range j.services {
			// What arrived first differs from one replica, or one try, to another.
			if c := cmp.Compare(j.services[i].short, j.services[owner].short); c > 0 || c == 0 && before(j.services[i].resource, j.services[owner].resource) {
				owner = i
			}
		}
	}
	for i := range j.services {
		y := &j.services[i]
		s := j.service(d, t.key.org, in.organization, y.resource)
		s.Seen(t.time)
		c := s.Counts(in.bucket)
		c[catalog.SPA001].Observed++
		c[catalog.SPA005].Observed++
		c[catalog.SPA002].Observed += uint64(y.children)
		if y.internal > maxInternalSpans {
			c[catalog.SPA001].Failed++
			j.evidence(t, i, catalog.SPA001, in, s, d, func(r *record) bool { return r.flags&flagInternal != 0 })
		}
		if y.orphans > 0 {
			c[catalog.SPA002].Failed += uint64(y.orphans)
			j.evidence(t, i, catalog.SPA002, in, s, d, func(r *record) bool { return r.parent != 0 && !j.has(t, r.parent) })
		}
		if i == owner {
			c[catalog.SPA005].Failed++
			j.evidence(t, i, catalog.SPA005, in, s, d, func(r *record) bool { return r.flags&flagShort != 0 })
		}
	}
}

// before orders services by name, then by the rest of their keys.
func before(a, b *Resource) bool {
	x, y := &a.Service, &b.Service
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Namespace, y.Namespace),
		cmp.Compare(x.Environment, y.Environment), cmp.Compare(x.Version, y.Version)) < 0
}

// smallTrace is the number of spans up to which a linear search for a parent
// beats building a set.
const smallTrace = 16

func (j *judge) reset(t *openTrace) {
	clear(j.services)
	j.services, j.ofRes = j.services[:0], j.ofRes[:0]
	clear(j.byHash)
	for _, r := range t.resources {
		i := -1
		if !r.Unjudged {
			i = j.serviceOf(r)
		}
		j.ofRes = append(j.ofRes, i)
	}
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
	}
}

// serviceOf returns the index of a resource's service among those of the trace.
func (j *judge) serviceOf(r *Resource) int {
	n := len(j.services)
	if n <= scanned {
		for i := range j.services {
			if j.services[i].resource.Hash == r.Hash {
				return i
			}
		}
	} else if i, ok := j.byHash[r.Hash]; ok {
		return i
	}
	j.services = append(j.services, tally{resource: r})
	if n == scanned {
		if j.byHash == nil {
			j.byHash = make(map[uint64]int)
		}
		for i := range j.services {
			j.byHash[j.services[i].resource.Hash] = i
		}
	} else if n > scanned {
		j.byHash[r.Hash] = n
	}
	return n
}

// maxFacts bounds the services that a judge remembers.
const maxFacts = 1 << 14

// service returns d's facts of a resource's service.
func (j *judge) service(d *delta.Delta, org uint32, organization string, r *Resource) *delta.Service {
	if j.facts == nil || len(j.facts) >= maxFacts {
		j.facts = make(map[uint64]*delta.Service)
	}
	h := delta.Mix(uint64(org), r.Hash)
	s := j.facts[h]
	if s == nil {
		s = d.Organization(organization).Service(r.Service)
		j.facts[h] = s
	}
	return s
}

func (j *judge) has(t *openTrace, id uint64) bool {
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

// evidence adds the names of a service's spans that match, and the trace as an
// example.
func (j *judge) evidence(t *openTrace, service int, rule catalog.Rule, in judgement, s *delta.Service, d *delta.Delta, match func(*record) bool) {
	resource := j.services[service].resource
	n := 0
	for i := range t.records {
		r := &t.records[i]
		if j.ofRes[r.resource] != service || !match(r) {
			continue
		}
		resource = t.resources[r.resource]
		name := t.names.texts[r.name]
		if name == "" || n == delta.MaxItems {
			continue
		}
		d.AddItem(in.filter, s, resource.Hash, delta.Item{Rule: rule, List: delta.SpanNames, Text: name}, in.bucket)
		n++
	}
	d.AddExample(in.filter, s, resource.Hash, rule, delta.Example{
		TimeUnixNano: t.time, Signal: delta.Traces, TraceID: t.key.id,
		ResourceAttributes: resource.Attributes, SamplingRate: in.rate,
	})
}
