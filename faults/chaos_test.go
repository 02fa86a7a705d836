// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPostgresChaos breaks whatever can break, at random and two things at a time. No
// replica is away for so long that another one judges the traces that it has the
// beginnings of. It is long alone: each of its faults has a short form of its own.
func TestPostgresChaos(t *testing.T) {
	if !*long {
		t.Log("not run: faults at random, two at a time; run it with -faults.long")
		return
	}
	const every = 500 * time.Millisecond
	l := loads.get(t, int(3*time.Minute/every), true)
	pg := startServer(t)
	run(t, plan{load: l.load, every: every, idle: "30s", fleet: onPostgres(t, pg), breaks: func(s *scenario) {
		rng := rand.New(rand.NewPCG(*seed, 2))
		over := func() bool { return s.ledger.Acknowledged() > uint64(s.Requests)*9/10 }
		var mu sync.Mutex // of rng, for the two who break things
		choose := func(n int) (what, replica int, d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			return rng.IntN(n), rng.IntN(replicas), time.Duration(rng.Int64N(int64(3 * time.Second)))
		}
		var both sync.WaitGroup
		both.Go(func() { // processes
			for !over() {
				what, i, d := choose(3)
				r := s.fleet.Replicas[i]
				switch what {
				case 0:
					r.Kill()
					s.Fault("kill", "killed %s for %v", r.Name, d)
				case 1:
					s.check(r.Terminate(s.ctx))
					s.Fault("terminate", "%s ended after SIGTERM, for %v", r.Name, d)
				case 2:
					s.check(r.Freeze())
					s.Fault("freeze", "froze %s for %v", r.Name, d)
				}
				<-time.After(d)
				if what == 2 {
					s.check(r.Thaw())
				} else {
					s.startAgain(r)
				}
				s.Event("%s goes on", r.Name)
				_, _, d = choose(1)
				<-time.After(d)
			}
		})
		both.Go(func() { // the network and the server
			for !over() {
				what, i, d := choose(6)
				r := s.fleet.Replicas[i]
				if r.running() == nil {
					what = 0
				}
				switch what {
				case 0:
					require.NoError(s, pg.StopImmediate(s.ctx))
					s.Fault("postgres restart", "stopped postgres for %v", d)
				case 1:
					r.Database.Hold()
					s.Fault("hold", "nothing passes between %s and postgres for %v", r.Name, d)
				case 2:
					r.Database.Refuse()
					s.Fault("refuse", "%s is cut off from postgres for %v", r.Name, d)
				case 3:
					r.Database.Delay(d / 50)
					s.Fault("delay", "what passes between %s and postgres takes %v longer", r.Name, d/50)
				case 4:
					for range 2 {
						r.Database.CutOnce(Cut{After: []byte("commit\x00"), Answer: true})
					}
					s.Fault("commit cut", "the answers to two commits of %s are cut", r.Name)
				case 5:
					for _, p := range []*Proxy{r.OTLPHTTP, r.OTLPGRPC} {
						p.CutOnce(Cut{Pass: 100})
						p.CutOnce(Cut{Answer: true})
					}
					s.Fault("cut", "requests to %s and their answers are cut", r.Name)
				}
				<-time.After(d)
				if what == 0 {
					require.NoError(s, pg.StartAgain(s.ctx))
				}
				r.Database.Restore()
				s.Event("that is over")
				_, _, d = choose(1)
				<-time.After(d)
			}
		})
		both.Wait()
		ended := time.Now()
		s.Event("nothing breaks any more")
		for i := range s.fleet.Replicas {
			s.ready(i, ended)
		}
	}}, l.reference)
}

// startAgain starts a replica as often as that takes, as who watches over processes
// does.
func (s *scenario) startAgain(r *Replica) {
	s.Helper()
	s.check(await(s.ctx, settleLimit, seldom, func() error { return r.Start(s.ctx) }))
}
