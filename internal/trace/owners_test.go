// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// owner is a process that may be suspended while it adopts a journal.
type owner struct {
	*process
	resume func() (struct{}, bool) // continues the adoption up to its next call of the store; nil: none
	stop   func()
}

// adoption adopts a journal as engine does, and pauses after each call of the store. It reads so many entries at a time.
func (p *process) adoption(rt *rapid.T, now *time.Time, name string, page int) iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		read := func() (r *Recovery, resumed bool) {
			r = p.a.Recovery(name)
			for {
				entries := slices.DeleteFunc(p.disk.read(name), func(e delta.JournalEntry) bool { return e.Seq <= r.Last() })
				entries = entries[:min(len(entries), page)]
				require.NoError(rt, r.Read(entries))
				if !yield(struct{}{}) {
					return r, false
				}
				if len(entries) < page {
					return r, true
				}
			}
		}
		transact := func(r *Recovery) (resumed bool) {
			end, most := ending(rt), rapid.IntRange(1, 4).Draw(rt, "most")
			err := p.try(*now, end, func(x *Transaction) { adoptSome(x, r, most) })
			return err == nil && end == succeeds && yield(struct{}{})
		}
		r, resumed := read()
		since, over := r.AllMoved()
		if !resumed || over && now.Sub(since) < 24*time.Hour {
			return
		}
		if !r.Claimed() {
			if !transact(r) {
				return
			}
			mark := r.Last()
			if r, resumed = read(); !resumed || !r.Continue(mark) {
				return
			}
		}
		for !r.Ended() && transact(r) {
		}
	}
}

func ending(rt *rapid.T) outcome {
	if rapid.IntRange(0, 4).Draw(rt, "end") == 4 {
		return unknown
	}
	return succeeds
}

// TestSuspendedOwners: processes without leases adopt the journals of each other, and are suspended between any two calls
// of the store. Each trace has one verdict, or at most one if memory is short.
func TestSuspendedOwners(t *testing.T) {
	for name, memory := range map[string][]int{"all traces": {0}, "sampled": {8 << 10, 16 << 10, 32 << 10, 64 << 10}} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				n := func(label string, limit int) int { return rapid.IntRange(0, limit).Draw(rt, label) }
				cfg := Config{Idle: 10 * time.Second, Max: 40 * time.Second, Memory: rapid.SampledFrom(memory).Draw(rt, "memory")}
				page := rapid.SampledFrom([]int{1 << 20, 8, 2, 1}).Draw(rt, "page")
				d, now, lives, traces := new(disk), t0, 0, 0
				var owners []*owner
				begin := func() *owner {
					lives++
					o := &owner{process: start(rt, d, fmt.Sprint(lives), cfg)}
					owners = append(owners, o)
					return o
				}
				adopt := func(o *owner, name string) {
					o.resume, o.stop = iter.Pull(o.adoption(rt, &now, name, page))
				}
				step := func(o *owner) (more bool) {
					if o.resume == nil {
						return false
					}
					if _, more = o.resume(); !more {
						o.resume = nil
					}
					return more
				}
				kill := func(o *owner) {
					if o.resume != nil {
						o.stop()
					}
				}
				defer func() {
					for _, o := range owners {
						kill(o)
					}
				}()
				some := func() *owner { return owners[n("process", len(owners)-1)] }
				begin()
				begin()
				rt.Repeat(map[string]func(*rapid.T){
					"add": func(*rapid.T) {
						o, first, end := some(), traces, ending(rt)
						traces += 1 + n("traces", 2+cfg.Memory>>12)
						for tries := 0; tries == 0 || o.try(now, end, func(x *Transaction) {
							for i := first; i < traces; i++ {
								x.Add(fmt.Sprint(i%3), []Span{span(i, 1, 0, resource(fmt.Sprint(i)))})
							}
						}) != nil; tries++ {
							require.Less(rt, tries, 3)
						}
					},
					"time":  func(*rapid.T) { now = now.Add(time.Duration(n("seconds", 6)) * time.Second) },
					"close": func(*rapid.T) { o := some(); _ = o.try(now, ending(rt), o.closeDue) },
					"sweep": func(*rapid.T) {
						o := some()
						o.beginSweep()
						_ = o.try(now, ending(rt), func(*Transaction) {})
					},
					"delete": func(*rapid.T) { _ = some().try(now, ending(rt), func(*Transaction) {}) },
					"adopt": func(*rapid.T) {
						o, names := some(), slices.Sorted(maps.Keys(d.journals))
						if o.resume == nil && len(names) > 0 {
							if name := names[n("journal", len(names)-1)]; name != o.name {
								adopt(o, name)
							}
						}
						for range 1 + n("steps", 3) {
							step(o)
						}
					},
					"start": func(*rapid.T) {
						if len(owners) < 4 {
							begin()
						}
					},
					"kill": func(*rapid.T) {
						if i := n("process", 15); i < len(owners) {
							kill(owners[i])
							owners = slices.Delete(owners, i, i+1)
						}
						if len(owners) == 0 {
							begin()
						}
					},
				})
				last := begin()
				for _, name := range slices.Sorted(maps.Keys(d.journals)) {
					for tries := 0; name != last.name && last.recover(name).Traces() > 0; tries++ {
						require.Less(rt, tries, 100)
						for adopt(last, name); step(last); {
						}
					}
				}
				now = now.Add(time.Hour)
				for _, o := range owners {
					for step(o) {
					}
					_ = o.try(now, succeeds, o.closeAll)
					for tries := 0; o.a.Pending() && tries < 20; tries++ {
						_ = o.try(now, succeeds, func(*Transaction) {})
					}
					require.Empty(rt, o.a.traces.byHash)
				}
				verdicts := make(map[string]uint64)
				for _, o := range d.verdicts.Organizations {
					for k, s := range o.Services {
						for i := range s.Verdicts {
							verdicts[k.Name] += s.Verdicts[i].Counts[catalog.SPA001].Observed
						}
					}
				}
				for name, n := range verdicts {
					require.EqualValues(rt, 1, n, "verdicts of trace %s", name)
				}
				if cfg.Memory == 0 {
					require.Len(rt, verdicts, traces)
				}
			})
		})
	}
}
