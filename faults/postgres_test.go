// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
	"assay/internal/store/postgres/pgtest"
)

// replicas is the number of replicas in the scenarios on PostgreSQL.
const replicas = 3

// startServer starts a PostgreSQL server and stops it at the end of the test.
func startServer(t *testing.T) *pgtest.Server {
	t.Helper()
	s, err := pgtest.Start(pgtest.Config{TCP: true, Durable: *long, Settings: map[string]string{"max_connections": "200"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// onPostgres returns the configuration of a fleet on an empty database.
func onPostgres(t *testing.T, pg *pgtest.Server) FleetConfig {
	t.Helper()
	url, err := pg.NewDatabase(t.Context())
	require.NoError(t, err)
	return FleetConfig{Database: url, Replicas: replicas}
}

// TestPostgres injects faults into replicas that share one PostgreSQL server, and into the network between
// them.
func TestPostgres(t *testing.T) {
	parallel(t)
	pg := startServer(t)
	scenarios := map[string]func(*testing.T, *pgtest.Server){
		"network": postgresNetwork, "clocks": postgresClocks, "frozen": postgresFrozen, "terminated": postgresTerminated, "disk full": postgresDiskFull,
	}
	if *long {
		scenarios["disk answered full"] = postgresAnswersFull
	}
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			scenario(t, pg)
		})
	}
}

// TestPostgresKilled kills one replica after the other. It restarts the database server twice in immediate
// mode, the second time while a replica is down.
func TestPostgresKilled(t *testing.T) {
	parallel(t)
	const between = 20 * time.Second // time between kills in the long form
	every := in(300*time.Millisecond, 500*time.Millisecond)
	rounds := in(8, int(*duration/every))
	kills := in(3, int(*duration/between)-1)
	l := loads.get(t, rounds, true)
	pg := startServer(t)
	fleet := onPostgres(t, pg)
	run(t, plan{load: l.load, every: every, idle: in("", "20s"), fleet: fleet, breaks: func(s *scenario) {
		for kill := range kills {
			s.after(float64(kill+1) / float64(kills+1))
			switch kill {
			case kills / 3:
				s.restart(pg, nil)
				s.kill(kill % replicas)
			case 2 * kills / 3:
				s.restart(pg, s.fleet.Replicas[kill%replicas])
			default:
				s.kill(kill % replicas)
			}
		}
	}}, l.reference)
}

// restart stops the database server in immediate mode and starts it again. A replica that is not nil is
// killed and restarted as well.
func (s *scenario) restart(pg *pgtest.Server, r *Replica) {
	s.Helper()
	require.NoError(s, pg.StopImmediate(s.ctx))
	s.Fault("postgres restart", "stopped postgres with %d acknowledged", s.ledger.Acknowledged())
	if r != nil {
		r.Kill()
		s.Fault("kill", "killed %s", r.Name)
	}
	// Keep the server down for a moment.
	<-time.After(in(300*time.Millisecond, 2*time.Second))
	require.NoError(s, pg.StartAgain(s.ctx))
	ended := time.Now()
	s.Event("started postgres")
	if r != nil {
		require.NoError(s, r.Start(s.ctx))
	}
	for i := range s.fleet.Replicas {
		s.ready(i, ended)
	}
}

// postgresNetwork breaks the network between replicas and the database server. It cuts the response to a
// commit, so that the replica cannot know whether the transaction was committed. It also resets, holds and
// delays connections.
func postgresNetwork(t *testing.T, pg *pgtest.Server) {
	times := in(1, 10)
	l := loads.get(t, in(8, 60), false)
	fleet := onPostgres(t, pg)
	var before []float64
	run(t, plan{load: l.load, every: in(500*time.Millisecond, time.Second), idle: "2s", fleet: fleet, breaks: func(s *scenario) {
		s.after(0.1)
		before = s.resources()
		for i := range times {
			s.after(float64(i) / float64(times))
			s.cutCommits(4)
			r := s.fleet.Replicas[i%replicas]
			for _, f := range []struct {
				kind string
				do   func()
			}{
				{"refuse", r.Database.Refuse},
				{"hold", r.Database.Hold},
				{"delay", func() { r.Database.Delay(50 * time.Millisecond) }},
			} {
				f.do()
				s.Fault(f.kind, "%s between %s and postgres", f.kind, r.Name)
				<-time.After(in(time.Second, 7*time.Second))
				r.Database.Restore()
				s.ready(i%replicas, time.Now())
			}
		}
	}, closing: func(s *scenario) {
		// Cut the commits of the last traces: their facts are committed, but their replicas do not know it.
		for began := time.Now(); time.Since(began) < 4*time.Second; {
			s.cutCommits(1)
		}
		s.notGrown(before)
	}}, l.reference)
}

// cutCommits cuts the responses to a number of commits of each replica, whatever they commit: requests,
// closed traces, scores or leases.
func (s *scenario) cutCommits(times int) {
	s.Helper()
	for range times {
		cuts := make([]<-chan struct{}, len(s.fleet.Replicas))
		for i, r := range s.fleet.Replicas {
			cuts[i] = r.Database.CutOnce(Cut{After: []byte("commit\x00"), Answer: true})
		}
		for i, r := range s.fleet.Replicas {
			select {
			case <-cuts[i]:
				s.Fault("commit cut", "cut the answer to a commit of %s", r.Name)
			case <-time.After(assaytest.Limit):
				require.Fail(s, "no replica commits")
			}
		}
	}
}

// postgresClocks runs replicas whose clocks are two hours ahead and behind, and kills the replica whose clock
// is correct.
func postgresClocks(t *testing.T, pg *pgtest.Server) {
	l := loads.get(t, in(8, 60), false)
	fleet := onPostgres(t, pg)
	fleet.Environ = func(i int) []string { return []string{"FAULTS_CLOCK_SHIFT=" + []string{"0s", "2h", "-2h"}[i]} }
	run(t, plan{load: l.load, every: in(200*time.Millisecond, time.Second), idle: "1s", fleet: fleet, breaks: func(s *scenario) {
		s.Fault("clock", "b is two hours ahead, c two hours behind")
		s.after(0.5)
		s.kill(0)
	}}, l.reference)
}

// postgresFrozen freezes replicas and resumes them. In the long form other replicas adopt their traces
// meanwhile. Spans that a resumed replica receives within --trace-idle may belong to traces that another
// replica evaluates.
func postgresFrozen(t *testing.T, pg *pgtest.Server) {
	times := in(1, 3)
	l := loads.get(t, in(8, 120), false)
	fleet := onPostgres(t, pg)
	run(t, plan{load: l.load, every: in(200*time.Millisecond, time.Second), idle: "1s", fleet: fleet, withheld: *long, breaks: func(s *scenario) {
		for i := range times {
			s.after(float64(i+1) / float64(times+1))
			r := s.fleet.Replicas[i%replicas]
			require.NoError(s, r.Freeze())
			s.Fault("freeze", "froze %s with %d acknowledged", r.Name, s.ledger.Acknowledged())
			<-time.After(in(time.Second, 25*time.Second))
			require.NoError(s, r.Thaw())
			ended := time.Now()
			s.Event("thawed %s", r.Name)
			s.ready(i%replicas, ended)
		}
	}}, l.reference)
}

// postgresTerminated terminates one replica after the other with SIGTERM under load.
func postgresTerminated(t *testing.T, pg *pgtest.Server) {
	times := in(3, 12)
	l := loads.get(t, in(8, 60), true)
	fleet := onPostgres(t, pg)
	run(t, plan{load: l.load, every: in(300*time.Millisecond, time.Second), fleet: fleet, breaks: func(s *scenario) {
		for i := range times {
			s.after(float64(i+1) / float64(times+1))
			s.terminate(i % replicas)
		}
	}}, l.reference)
}
