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

// TestPostgresChaos injects random faults, two at a time. Outages are shorter than the time after which
// another replica evaluates the traces that a replica has begun. It has only a long form: each of its faults
// has a short scenario of its own.
func TestPostgresChaos(t *testing.T) {
	if !*long {
		t.Log("skipped: random faults, two at a time; run with -faults.long")
		return
	}
	const every = 500 * time.Millisecond
	l := loads.get(t, int(3*time.Minute/every), true)
	pg := startServer(t)
	run(t, plan{load: l.load, every: every, idle: "30s", fleet: onPostgres(t, pg), breaks: func(s *scenario) {
		rng := rand.New(rand.NewPCG(*seed, 2))
		over := func() bool { return s.ledger.Acknowledged() > uint64(s.Requests)*9/10 }
		var mu sync.Mutex // guards rng: two goroutines inject faults
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
					s.check(r.Terminate())
					s.Fault("terminate", "%s ended after SIGTERM, for %v", r.Name, d)
				case 2:
					s.check(r.Freeze())
					s.Fault("freeze", "froze %s for %v", r.Name, d)
				}
				<-time.After(d)
				if what == 2 {
					s.check(r.Thaw())
				} else {
					s.check(r.Start(s.ctx))
				}
				s.Event("%s runs again", r.Name)
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
					s.Fault("hold", "held traffic between %s and postgres for %v", r.Name, d)
				case 2:
					r.Database.Refuse()
					s.Fault("refuse", "reset connections between %s and postgres for %v", r.Name, d)
				case 3:
					r.Database.Delay(d / 50)
					s.Fault("delay", "delayed traffic between %s and postgres by %v", r.Name, d/50)
				case 4:
					for range 2 {
						r.Database.CutOnce(Cut{After: []byte("commit\x00"), Answer: true})
					}
					s.Fault("commit cut", "cut the responses to two commits of %s", r.Name)
				case 5:
					for _, p := range []*Proxy{r.OTLPHTTP, r.OTLPGRPC} {
						p.CutOnce(Cut{Pass: 100})
						p.CutOnce(Cut{Answer: true})
					}
					s.Fault("cut", "cut requests to %s and their responses", r.Name)
				}
				<-time.After(d)
				if what == 0 {
					require.NoError(s, pg.StartAgain(s.ctx))
				}
				r.Database.Restore()
				s.Event("fault ended")
				_, _, d = choose(1)
				<-time.After(d)
			}
		})
		both.Wait()
		ended := time.Now()
		s.Event("injected the last fault")
		for i := range s.fleet.Replicas {
			s.ready(i, ended)
		}
	}}, l.reference)
}
