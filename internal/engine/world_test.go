// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// world is an in-memory store shared by any number of processes.
type world struct {
	mu       sync.Mutex
	now      time.Time
	seen     map[delta.Request]bool
	facts    delta.Delta
	journals map[string]map[uint64][]byte
	leases   map[string]hold
}

type hold struct {
	holder  string
	expires time.Time
}

const expiry = 10 * time.Second

func newWorld(now time.Time) *world {
	return &world{now: now, seen: make(map[delta.Request]bool), journals: make(map[string]map[uint64][]byte), leases: make(map[string]hold)}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// totals returns the stored counts of a service's rule.
func (w *world) totals(service string, r catalog.Rule) (sum delta.Count) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.facts.Organizations {
		for k, s := range o.Services {
			for i := range s.Verdicts {
				if k.Name == service {
					sum.Add(s.Verdicts[i].Counts[r])
				}
			}
		}
	}
	return sum
}

// entries returns the number of entries by journal.
func (w *world) entries() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := make(map[string]int)
	for name, j := range w.journals {
		n[name] = len(j)
	}
	return n
}

// end is the outcome of one commit of a process.
type end int

const (
	diesBefore end = iota + 1 // the process dies before the commit
	diesAfter                 // the process dies after the commit, before the result
	resultLost                // the result is lost
	refused                   // the store fails
)

var (
	errDead = errors.New("the process is dead")
	errLost = assay.Errorf(assay.CodeUnavailable, "connection lost")
)

// process is the connection of one process to the world.
type process struct {
	*world
	name string

	own     sync.Mutex
	dead    bool
	commits int
	ends    map[int]end // by commit, from 1
	reading func()      // if set, is called when a journal is read
	// unreadable, if set, is the error of reading a journal.
	unreadable error
}

// kill fails all further calls of the process.
func (p *process) kill() {
	p.own.Lock()
	defer p.own.Unlock()
	p.dead = true
}

func (p *process) alive() error {
	p.own.Lock()
	defer p.own.Unlock()
	if p.dead {
		return errDead
	}
	return nil
}

func (p *process) Commit(_ context.Context, _ time.Time, requests []delta.Request, merge func([]bool) *delta.Delta) error {
	if err := p.alive(); err != nil {
		return err
	}
	p.own.Lock()
	p.commits++
	how := p.ends[p.commits]
	p.own.Unlock()
	switch how {
	case diesBefore:
		p.kill()
		return errDead
	case refused:
		merge(make([]bool, len(requests))) // the process dies after merging
		return errLost
	}
	if err := p.commit(p.name, requests, merge); err != nil {
		return err
	}
	switch how {
	case diesAfter:
		p.kill()
		return errDead
	case resultLost:
		return errLost
	}
	return nil
}

func (w *world) commit(holder string, requests []delta.Request, merge func([]bool) *delta.Delta) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := make([]bool, len(requests))
	for i, r := range requests {
		fresh[i] = !w.seen[r] && !slices.Contains(requests[:i], r)
	}
	d := merge(fresh)
	for _, j := range d.Journals {
		if j.Holder != holder || w.leases[delta.JournalLease(j.Name)].holder != holder {
			return delta.ErrJournalLost
		}
		for seq := range w.journals[j.Name] {
			if seq >= j.Next {
				return delta.ErrJournalConflict
			}
		}
	}
	for _, j := range d.Journals {
		if w.journals[j.Name] == nil {
			w.journals[j.Name] = make(map[uint64][]byte)
		}
		for _, e := range j.Append {
			w.journals[j.Name][e.Seq] = bytes.Clone(e.Data)
		}
		for _, seq := range j.Forget {
			delete(w.journals[j.Name], seq)
		}
		if len(w.journals[j.Name]) == 0 {
			delete(w.journals, j.Name)
		}
	}
	for _, r := range requests {
		w.seen[r] = true
	}
	w.facts.Merge(d)
	return nil
}

func (p *process) ReadJournal(_ context.Context, name string, after uint64, limit int) (entries []delta.JournalEntry, err error) {
	if p.reading != nil {
		p.reading()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unreadable != nil {
		return nil, p.unreadable
	}
	for _, seq := range slices.Sorted(maps.Keys(p.journals[name])) {
		if seq > after && len(entries) < limit {
			entries = append(entries, delta.JournalEntry{Seq: seq, Data: p.journals[name][seq]})
		}
	}
	return entries, p.alive()
}

func (p *process) Journals(context.Context) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.journals)), p.alive()
}

func (p *process) LeaseNames(_ context.Context, prefix string) (names []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, l := range p.leases {
		if strings.HasPrefix(name, prefix) && p.now.Before(l.expires) {
			names = append(names, name)
		}
	}
	return names, p.alive()
}

func (p *process) KnownServices(context.Context, string) ([]assay.ServiceKey, error) {
	return nil, p.alive()
}

func (*process) HashKey(context.Context, string) (delta.HashKey, error) {
	return delta.NewHashKey(make([]byte, delta.HashSecretBytes))
}

func (p *process) KnownMetricNames(context.Context, string) (map[assay.ServiceKey][]uint64, error) {
	return nil, p.alive()
}

// Holder implements engine.Leases.
func (p *process) Holder() string { return p.name }

func (p *process) Acquire(_ context.Context, name string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.leases[name]
	if l.holder != p.name && p.now.Before(l.expires) {
		return false, p.alive()
	}
	p.leases[name] = hold{p.name, p.now.Add(expiry)}
	return true, p.alive()
}

func (p *process) Release(_ context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leases[name].holder == p.name && p.alive() == nil {
		delete(p.leases, name)
	}
	return p.alive()
}

// renew renews a lease that the process holds or could have reacquired, like a process that does not know how long it
// was suspended.
func (p *process) renew(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.leases[name]; l.holder == p.name || !p.now.Before(l.expires) {
		p.leases[name] = hold{p.name, p.now.Add(expiry)}
	}
}
