// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// observation merges one observation of a service with a number.
func observation(org string, n int) func([]bool) *delta.Delta {
	return func([]bool) *delta.Delta {
		d := new(delta.Delta)
		d.Organization(org).Service(assay.ServiceKey{Name: fmt.Sprint(n)}).Counts(0)[catalog.RES001].Observed = 1
		return d
	}
}

// observed returns the total number of observations of RES-001.
func observed(t testing.TB, s *Store, org string) (n uint64) {
	t.Helper()
	ids, err := s.UnscoredServices(t.Context(), org, true)
	require.NoError(t, err)
	facts, err := s.Facts(t.Context(), org, ids, 0)
	require.NoError(t, err)
	for _, f := range facts {
		n += f.Totals[catalog.RES001].Observed
	}
	return n
}

// conflicts counts the log records about deadlocks.
type conflicts struct {
	slog.Handler
	deadlocks atomic.Int64
}

func (c *conflicts) Enabled(context.Context, slog.Level) bool { return true }

func (c *conflicts) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if strings.Contains(a.Value.String(), deadlockDetected) {
			c.deadlocks.Add(1)
		}
		return true
	})
	return nil
}

// TestReplicas runs several replicas that concurrently merge, score, expire and repeat
// requests of the same services.
func TestReplicas(t *testing.T) {
	const replicas, commits, services = 4, 40, 12
	address, found := migrated(t), &conflicts{Handler: slog.DiscardHandler}
	stores := make([]*Store, replicas)
	for i := range stores {
		var err error
		stores[i], err = Open(t.Context(), Config{URL: address, Logger: slog.New(found)})
		require.NoError(t, err)
		defer stores[i].Close()
	}
	org := organization(t, stores[0], "a")
	hour := delta.BucketOf(uint64(time.Now().UnixNano()), time.Hour)
	var want atomic.Uint64
	var wg sync.WaitGroup
	errs := make([]error, replicas)
	for r, s := range stores {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(r)))
			for i := range commits {
				// Every request is sent to two replicas.
				requests := []delta.Request{{OrganizationID: org, Hash: [16]byte{byte(i), byte(r / 2)}}}
				d, added := new(delta.Delta), uint64(0)
				for range 1 + random.IntN(services) {
					f := d.Organization(org).Service(assay.ServiceKey{Name: fmt.Sprint(random.IntN(services), "-", i/10)})
					f.Seen(uint64(time.Now().UnixNano()))
					f.Counts(hour - delta.Bucket(random.IntN(5*24))*3600)[catalog.RES001].Add(delta.Count{Observed: 1})
					f.AddItem(delta.Item{Rule: catalog.RES001, List: delta.Units, Text: fmt.Sprint(random.IntN(99))}, hour)
					f.AddExample(catalog.RES001, &delta.Example{TimeUnixNano: random.Uint64(), ResourceAttributes: "{}"})
					f.AddClaim(delta.Claim{Rule: catalog.RES002, Key: delta.Hash128{High: 1, Low: random.Uint64N(9)}, Value: random.Uint64N(3)}, delta.ClaimFact{Last: hour})
					f.DistinctSet(delta.DistinctKey{Rule: catalog.MET001, Hour: int64(hour), Key: random.Uint64N(3)}, hour, 50, "m", "a").Add(random.Uint64N(99))
					f.Series.Add(random.Uint64(), hour)
					added++
				}
				d.Organization(org).LogRecords[assay.SeverityInfo] = added
				counted := false
				at := time.Now().Add(-time.Duration(random.IntN(4*24)) * time.Hour) // log records of minutes that are merged meanwhile
				err := s.Commit(context.Background(), at, requests, func(fresh []bool) *delta.Delta {
					if counted = fresh[0]; !counted {
						return nil
					}
					return d
				})
				if err != nil {
					errs[r] = err
					return
				}
				if counted {
					want.Add(added)
				}
				switch {
				case i%10 == r:
					errs[r] = errors.Join(errs[r], s.Expire(context.Background(), time.Now(), hour-32*24*3600, hour-32*24*3600))
				case i%5 == 0:
					errs[r] = errors.Join(errs[r], scoreAll(s, org))
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, want.Load(), observed(t, stores[0], org))
	records, err := stores[1].LogRecords(t.Context(), org, time.Unix(0, 0), time.Now().Add(time.Hour), time.Minute)
	require.NoError(t, err)
	var counts assay.SeverityCounts
	for i := range records {
		counts.Add(&records[i].Counts)
	}
	require.Equal(t, want.Load(), counts[assay.SeverityInfo])
	require.Zero(t, found.deadlocks.Load(), "rows are locked in one order")
	require.NoError(t, stores[0].Expire(t.Context(), time.Now(), hour+3600, hour+3600))
	require.Zero(t, observed(t, stores[0], org), "the counts are the totals")
}

// scoreAll saves a score and an insight of every service.
func scoreAll(s *Store, org string) error {
	ids, err := s.UnscoredServices(context.Background(), org, false)
	if err != nil {
		return err
	}
	facts, err := s.Facts(context.Background(), org, ids, 0)
	if err != nil {
		return err
	}
	var results []delta.Result
	for _, f := range facts {
		results = append(results, delta.Result{
			ServiceID: f.Service.ID, Revision: f.Revision, NewRow: true,
			Score: &assay.Score{ID: uuid.NewString(), CalculatedAt: time.Now(), CreatedAt: time.Now()},
			Insights: []*assay.Insight{{
				ID: delta.InsightID(f.Service.ID, catalog.RES001.Info().Name), Type: catalog.RES001.Info().Name, Status: assay.InsightActive,
				Attributes: map[string]any{"n": len(results)}, CreatedAt: time.Now(), UpdatedAt: time.Now(),
			}},
		})
	}
	return s.SaveScores(context.Background(), delta.Fence{}, org, results)
}

// TestRestart crashes the server twice during commits. A client that gets an error
// repeats its request.
func TestRestart(t *testing.T) {
	const senders, requests = 4, 60
	s, err := Open(t.Context(), Config{URL: migrated(t)})
	require.NoError(t, err)
	defer s.Close()
	org := organization(t, s, "a")
	var sent, failed atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for sender := range senders {
		wg.Go(func() {
			for i := range requests {
				request := []delta.Request{{OrganizationID: org, Hash: [16]byte{byte(sender), byte(i)}}}
				for {
					err := s.Commit(ctx, time.Now(), request, func(fresh []bool) *delta.Delta {
						if !fresh[0] {
							return nil
						}
						return observation(org, i%5)(fresh)
					})
					if err == nil {
						break
					}
					failed.Add(1)
					if assay.ErrorCode(err) != assay.CodeUnavailable {
						t.Errorf("request %d of sender %d: %v", i, sender, err)
						return
					}
				}
				sent.Add(1)
			}
		})
	}
	for n := range int64(2) {
		for sent.Load() < (n+1)*senders*requests/3 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, server.StopImmediate(ctx))
		require.NoError(t, server.StartAgain(ctx))
	}
	wg.Wait()
	require.EqualValues(t, senders*requests, observed(t, s, org))
	require.Positive(t, failed.Load(), "some met a server that was not there")
}

// TestUnknownOutcome loses the connection around COMMIT.
func TestUnknownOutcome(t *testing.T) {
	address := migrated(t)
	for _, c := range []struct {
		name   string
		stored bool
	}{{"before the server has it", false}, {"before its answer", true}} {
		t.Run(c.name, func(t *testing.T) {
			var cut atomic.Bool
			s, err := Open(t.Context(), Config{URL: through(t, address, func(_ int64, message string) fate {
				switch {
				case !strings.HasPrefix(message, "Qcommit") || !cut.CompareAndSwap(true, false):
					return passes
				case c.stored:
					return unanswered
				default:
					return dropped
				}
			})})
			require.NoError(t, err)
			defer s.Close()
			org := organization(t, s, c.name)
			request := []delta.Request{{OrganizationID: org, Hash: [16]byte{1}}}
			merges := 0
			send := func() (fresh bool, err error) {
				err = s.Commit(t.Context(), time.Now(), request, func(f []bool) *delta.Delta {
					merges++
					if fresh = f[0]; !fresh {
						return nil
					}
					return observation(org, 1)(f)
				})
				return fresh, err
			}
			require.NoError(t, s.Commit(t.Context(), time.Now(), nil, observation(org, 2))) // the partition is there
			cut.Store(true)
			_, err = send()
			require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)
			require.ErrorContains(t, err, "is unknown")
			require.Equal(t, 1, merges, "the store does not retry it")
			require.Eventually(t, func() bool { // the server may still be at work for the lost connection
				fresh, err := send()
				return err == nil && fresh == !c.stored
			}, time.Minute, 10*time.Millisecond)
			require.EqualValues(t, 2, observed(t, s, org))
		})
	}
}

// TestLostConnection loses connections where a retry is safe: the caller gets no error.
func TestLostConnection(t *testing.T) {
	address := migrated(t)
	for _, message := range []string{"Qbegin", "P", "B"} { // begin, and the batches of statements
		var cut atomic.Bool
		s, err := Open(t.Context(), Config{MaxConns: 3, URL: through(t, address, func(_ int64, m string) fate {
			if strings.HasPrefix(m, message) && cut.CompareAndSwap(true, false) {
				return dropped
			}
			return passes
		})})
		require.NoError(t, err)
		org := organization(t, s, "before "+message)
		for n, do := range []func() error{
			func() error { return s.Commit(t.Context(), time.Now(), nil, observation(org, 1)) },
			func() error { return s.Ping(t.Context()) },
			func() error { _, err := s.FindOrganizations(t.Context()); return err },
			func() error { return s.SetOrganizationTier(t.Context(), org, assay.TierPro) },
		} {
			cut.Store(true)
			require.NoError(t, do(), "%s, call %d", message, n)
			cut.Store(false)
		}
		require.EqualValues(t, 1, observed(t, s, org))
		require.NoError(t, s.Close())
	}
}

// TestCutOff swallows the traffic of the open connections. One call fails; later calls
// open new connections.
func TestCutOff(t *testing.T) {
	const conns = 3
	var made, lost atomic.Int64
	s, err := Open(t.Context(), Config{MaxConns: conns, URL: through(t, migrated(t), func(conn int64, _ string) fate {
		made.Store(max(made.Load(), conn+1))
		if conn < lost.Load() {
			return swallowed
		}
		return passes
	})})
	require.NoError(t, err)
	defer s.Close()
	var all []*pgxpool.Conn
	for range conns {
		conn, err := s.pool.Acquire(t.Context())
		require.NoError(t, err)
		all = append(all, conn)
	}
	for _, conn := range all {
		conn.Release()
	}
	lost.Store(made.Load())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Ping(ctx), context.DeadlineExceeded)
	for range 2 * conns {
		require.NoError(t, s.Ping(t.Context()))
	}
}

// TestCutOffWithoutDeadline: the store ends calls without a deadline, such as the
// scorer's, whose context ends with the program.
func TestCutOffWithoutDeadline(t *testing.T) {
	var lost atomic.Int64
	s, err := Open(t.Context(), Config{StatementTimeout: time.Second, URL: through(t, migrated(t)+"&connect_timeout=2", func(conn int64, _ string) fate {
		if conn < lost.Load() {
			return swallowed
		}
		return passes
	})})
	require.NoError(t, err)
	defer s.Close()
	org := organization(t, s, "a")
	for _, do := range []func() error{
		func() error { _, err := s.OrganizationIDs(t.Context()); return err },
		func() error { return s.SetOrganizationTier(t.Context(), org, assay.TierPro) },
		func() error { return scoreAll(s, org) },
	} {
		require.NoError(t, s.Ping(t.Context())) // opens a connection
		lost.Store(1000)
		ended := make(chan error, 1)
		go func() { ended <- do() }()
		select {
		case err := <-ended:
			require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)
		case <-time.After(time.Minute):
			t.Fatal("still waits")
		}
		lost.Store(0)
	}
}

// TestManyReaders: commits and lease renewals get a connection immediately, regardless of
// the number of readers.
func TestManyReaders(t *testing.T) {
	for _, conns := range []int{2, 4} {
		s, err := Open(t.Context(), Config{URL: migrated(t), MaxConns: conns})
		require.NoError(t, err)
		org := organization(t, s, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var began, ended atomic.Int64
		var wg sync.WaitGroup
		for range 10 * conns {
			wg.Go(func() {
				for ctx.Err() == nil {
					began.Add(1)
					_ = s.read(ctx, pages, "sleep", func(b *pgx.Batch) { b.Queue(`SELECT pg_sleep(1)`) })
					ended.Add(1)
				}
			})
		}
		require.Eventually(t, func() bool { return ended.Load() > 0 }, time.Minute, time.Millisecond)
		before := ended.Load()
		require.NoError(t, s.Commit(t.Context(), time.Now(), nil, observation(org, 1)))
		held, _, err := s.AcquireLeases(t.Context(), "me", []string{"x"}, time.Minute)
		require.NoError(t, err)
		require.Len(t, held, 1)
		require.Less(t, ended.Load()-before, int64(9*conns), "they did not wait for all earlier readers")
		cancel()
		wg.Wait()
		require.NoError(t, s.Close())
	}
}

// TestWaits limits the time that a call waits for a row lock of another transaction.
func TestWaits(t *testing.T) {
	s, err := Open(t.Context(), Config{URL: migrated(t), StatementTimeout: 2 * time.Second})
	require.NoError(t, err)
	defer s.Close()
	org := organization(t, s, "a")
	require.NoError(t, s.Commit(t.Context(), time.Now(), nil, observation(org, 1)))
	tx, err := s.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT 1 FROM services FOR UPDATE`)
	require.NoError(t, err)

	err = s.Commit(t.Context(), time.Now(), nil, observation(org, 1))
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)
	require.ErrorIs(t, err, context.DeadlineExceeded, "so that the next commit is made smaller")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Commit(ctx, time.Now(), nil, observation(org, 1)), context.DeadlineExceeded)
	require.EqualValues(t, 1, observed(t, s, org), "readers do not wait")

	// A lock released in time is not an error.
	done := make(chan error, 1)
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { done <- s.Commit(ctx, time.Now(), nil, observation(org, 1)) }()
	require.Eventually(t, func() bool {
		var waiting int
		require.NoError(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted`).Scan(&waiting))
		return waiting > 0
	}, time.Minute, time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
	require.EqualValues(t, 2, observed(t, s, org))
}

// TestQueryModes works without prepared statements, as poolers may need.
func TestQueryModes(t *testing.T) {
	for _, mode := range []string{"exec", "simple_protocol", "cache_describe"} {
		s, err := Open(t.Context(), Config{URL: migrated(t) + "&default_query_exec_mode=" + mode})
		require.NoError(t, err)
		everything(t, s)
		require.NoError(t, s.Close())
	}
}

// TestPlainRole uses a role with no privileges beyond its database.
func TestPlainRole(t *testing.T) {
	admin := open(t, Config{})
	for _, statement := range []string{`DROP DATABASE IF EXISTS plain`, `DROP ROLE IF EXISTS plain`, `CREATE ROLE plain LOGIN`, `CREATE DATABASE plain TEMPLATE template0 OWNER plain`} {
		_, err := admin.pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	address, err := url.Parse(server.URL())
	require.NoError(t, err)
	address.Path, address.User = "/plain", url.User("plain")
	s, err := Open(t.Context(), Config{URL: address.String(), Migrate: true})
	require.NoError(t, err)
	everything(t, s)
	require.NoError(t, s.Close())
}

// everything calls every method with statements of its own.
func everything(t *testing.T, s *Store) {
	t.Helper()
	org := organization(t, s, "a")
	now := time.Now()
	hour := delta.BucketOf(uint64(now.UnixNano()), time.Hour)
	held, _, err := s.AcquireLeases(t.Context(), "me", []string{delta.JournalLease("j"), "x"}, time.Minute)
	require.NoError(t, err)
	require.Len(t, held, 2)
	for i := range 2 {
		request := delta.Request{OrganizationID: org, Hash: [16]byte{byte(i)}}
		require.NoError(t, s.Commit(t.Context(), now, []delta.Request{request}, func(fresh []bool) *delta.Delta {
			require.Equal(t, []bool{true}, fresh)
			d := load(org, 2, i, now)
			claims(d, org, 2, now.Add(time.Duration(i)*time.Hour))
			for _, f := range d.Organizations[org].Services {
				f.DistinctSet(delta.DistinctKey{Rule: catalog.MET001, Hour: int64(hour)}, hour, 2, "m", "a").Add(uint64(i))
				f.Series.Add(delta.Mix(1, uint64(i)), hour)
			}
			d.Organization(org).LogRecords[assay.SeverityInfo] = 1
			d.Journals = []delta.Journal{{Name: "j", Holder: "me", Next: uint64(i), Append: []delta.JournalEntry{{Seq: uint64(i), Data: []byte{0, 1}}}, Forget: []uint64{9}}}
			return d
		}))
		require.NoError(t, scoreAll(s, org))
	}
	require.EqualValues(t, 400, observed(t, s, org))
	found, total, err := s.FindInsights(t.Context(), assay.InsightFilter{OrganizationID: org, Page: assay.Page{Limit: 10}})
	require.NoError(t, err)
	require.Len(t, found, total)
	require.NoError(t, s.MuteInsight(t.Context(), found[0].ID, "because"))
	require.NoError(t, s.UnmuteInsight(t.Context(), found[0].ID))
	usage, err := s.FindUsage(t.Context(), org)
	require.NoError(t, err)
	require.Len(t, usage, 2)
	_, err = delta.CountClaims(t.Context(), s.ClaimCounter(org, catalog.MET003, hour))
	require.NoError(t, err)
	_, err = s.Stats(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Expire(t.Context(), now.Add(time.Hour), hour+3600, hour+3600))
	require.Zero(t, observed(t, s, org))
	require.NoError(t, s.ReleaseLeases(t.Context(), "me"))
}

// partitionsOf returns the names of the partitions of a table before a day.
func partitionsOf(t *testing.T, s *Store, table *partitioned, before time.Time) (names []string) {
	t.Helper()
	found, err := s.partitionsBefore(t.Context(), table, table.of(before.Unix()*table.second).from())
	require.NoError(t, err)
	for _, p := range found {
		names = append(names, p.name())
	}
	return names
}

func TestPartitions(t *testing.T) {
	address := migrated(t)
	stores := make([]*Store, 3)
	for i := range stores {
		var err error
		stores[i], err = Open(t.Context(), Config{URL: address})
		require.NoError(t, err)
		defer stores[i].Close()
	}
	s := stores[0]
	org := organization(t, s, "a")
	day := delta.Bucket(benchTime.Truncate(24*time.Hour).Unix()) + 23*3600
	const dayLength = 24 * 3600
	now := benchTime.Add(48 * time.Hour) // its partitions are created ahead
	commit := func(s *Store, b delta.Bucket) error {
		return s.Commit(context.Background(), b.Time(), nil, func([]bool) *delta.Delta {
			d := new(delta.Delta)
			f := d.Organization(org).Service(assay.ServiceKey{Name: "a"})
			f.Seen(uint64(now.UnixNano()))
			f.Counts(b)[catalog.RES001].Add(delta.Count{Observed: 1})
			f.DistinctSet(delta.DistinctKey{Rule: catalog.SPA003, Hour: int64(b)}, b, 1, "", "").Add(1)
			return d
		})
	}
	expire := func(start delta.Bucket) {
		t.Helper()
		require.NoError(t, s.Expire(t.Context(), now, start, start))
	}
	// Replicas reach a new day at the same time.
	var wg sync.WaitGroup
	errs := make([]error, len(stores))
	for i, s := range stores {
		wg.Go(func() { errs[i] = errors.Join(commit(s, day), commit(s, day+3600)) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, []string{"hours_20261121", "hours_20261122"}, partitionsOf(t, s, hoursTable, now))
	require.Equal(t, []string{"distinct_sets_20261121", "distinct_sets_20261122"}, partitionsOf(t, s, setsTable, now))
	require.EqualValues(t, 2*len(stores), observed(t, s, org))

	// Expiry drops the partition of a past day, and that of a day in use a little later.
	tx, err := s.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT count(*) FROM hours`)
	require.NoError(t, err)
	expire(day + 3600)
	require.EqualValues(t, len(stores), observed(t, s, org))
	require.Equal(t, []string{"hours_20261121", "hours_20261122"}, partitionsOf(t, s, hoursTable, now))
	require.Equal(t, []string{"distinct_sets_20261122"}, partitionsOf(t, s, setsTable, now))
	require.NoError(t, tx.Rollback(t.Context()))
	expire(day + 3600)
	require.Equal(t, []string{"hours_20261122"}, partitionsOf(t, s, hoursTable, now))

	// A late commit recreates the partition, even if the replica had it in its cache. Expiry
	// drops it again.
	for _, s := range stores {
		require.NoError(t, commit(s, day))
	}
	require.EqualValues(t, 2*len(stores), observed(t, s, org))
	expire(day + 3600)
	require.EqualValues(t, len(stores), observed(t, s, org))
	expire(day + 3600 + dayLength)
	require.Zero(t, observed(t, s, org))
	require.Empty(t, partitionsOf(t, s, hoursTable, now))
	require.Empty(t, partitionsOf(t, s, setsTable, now))

	// The history of scores goes by days, and within a day by rows.
	id := delta.ServiceID(org, assay.ServiceKey{Name: "a"})
	for hours := range 3 {
		at := (day + delta.Bucket(hours)*3600).Time()
		require.NoError(t, s.SaveScores(t.Context(), delta.Fence{}, org, []delta.Result{{ServiceID: id, Score: &assay.Score{ID: uuid.NewString(), CalculatedAt: at}, NewRow: true}}))
	}
	require.Len(t, partitionsOf(t, s, scoresTable, now), 2)
	expire(day + 2*3600)
	require.Equal(t, []string{"scores_20261122"}, partitionsOf(t, s, scoresTable, now))
	history, err := s.ScoreHistory(t.Context(), org, id, time.Time{})
	require.NoError(t, err)
	require.Len(t, history, 1)

	require.Error(t, commit(s, -1), "no day before 1970")
	require.Error(t, commit(s, 1<<40), "nor one after 9999")
}

// TestCompact deletes most rows of a day.
func TestCompact(t *testing.T) {
	s, err := Open(t.Context(), Config{URL: migrated(t)})
	require.NoError(t, err)
	defer s.Close()
	org := organization(t, s, "a")
	hour := delta.BucketOf(uint64(benchTime.UnixNano()), time.Hour)
	d := new(delta.Delta)
	f := d.Organization(org).Service(assay.ServiceKey{Name: "a"})
	f.Seen(uint64(benchTime.UnixNano()))
	for k := range uint64(4000) {
		set := f.DistinctSet(delta.DistinctKey{Rule: catalog.SPA003, Hour: int64(hour), Key: k}, hour, 40, "", "")
		for v := range 30 + 10*min(k/3990, 1) { // the last ten are full
			set.Add(v)
		}
	}
	require.NoError(t, s.Commit(t.Context(), benchTime, nil, func([]bool) *delta.Delta { return d }))
	size := func() (rows, bytes int) {
		t.Helper()
		require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM distinct_sets), pg_total_relation_size('distinct_sets_20261121')`).Scan(&rows, &bytes))
		return rows, bytes
	}
	rows, large := size()
	require.Equal(t, 4000, rows)
	require.Greater(t, large, compactBytes)
	tx, err := s.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT count(*) FROM distinct_sets`)
	require.NoError(t, err)
	require.NoError(t, s.Expire(t.Context(), benchTime.Add(24*time.Hour), hour, hour))
	rows, bytes := size()
	require.Equal(t, 10, rows)
	require.GreaterOrEqual(t, bytes, large, "in use")
	require.NoError(t, tx.Rollback(t.Context()))
	for range 2 {
		require.NoError(t, s.Expire(t.Context(), benchTime.Add(24*time.Hour), hour, hour))
		rows, bytes = size()
		require.Equal(t, 10, rows)
		require.Less(t, bytes, large/4)
	}
	require.NoError(t, s.Commit(t.Context(), benchTime, nil, func([]bool) *delta.Delta { return d }))
	rows, _ = size()
	require.Equal(t, 4000, rows, "late data finds it")
}

func TestPartitionNames(t *testing.T) {
	for _, table := range []*partitioned{hoursTable, setsTable, scoresTable} {
		for _, day := range []int64{0, 1, 20778, maxDay} {
			p := partition{table, day}
			require.Equal(t, p, table.of(p.from()))
			require.Equal(t, p, table.of(p.next().from()-1))
			parsed, ok := table.parse(p.name())
			require.True(t, ok)
			require.Equal(t, p, parsed)
		}
		require.EqualValues(t, -1, table.of(-1).day)
		for _, name := range []string{"", table.name, table.name + "_", table.name + "_pkey", table.name + "_20261301", "other_20261121"} {
			_, ok := table.parse(name)
			require.False(t, ok, name)
		}
	}
}

// TestCommitPlans requires that the statements of a commit use their indexes, regardless
// of the tables' statistics.
func TestCommitPlans(t *testing.T) {
	s := open(t, Config{})
	org := organization(t, s, "a")
	require.NoError(t, s.Commit(t.Context(), benchTime, nil, observation(org, 1)))
	numbers, small, blobs, ids := []int64{1, 2}, []int16{1, 2}, [][]byte{{1}, {2}}, uuidsOf([]string{org, org})
	for _, q := range []struct {
		statement string
		args      []any
	}{
		{lockServices, []any{ids}},
		{valueTables[0].find, []any{numbers}},
		{findClaims, []any{numbers, small, numbers}},
		{moveClaims, []any{numbers, small, numbers, numbers, numbers, numbers}},
		{valueTables[0].change, []any{numbers, blobs}},
		{valueTables[1].change, []any{numbers, blobs, numbers}},
		{saveServices, []any{1, numbers, numbers, numbers, blobs, numbers}},
		{forgetRequests, []any{nil, 1, 0, 10}},
		{touchClaims, []any{numbers, numbers}},
	} {
		plan := ""
		require.NoError(t, s.transact(t.Context(), scoring, "explain", beginCommit, func(tx pgx.Tx) error {
			rows, err := tx.Query(t.Context(), `EXPLAIN `+q.statement, q.args...)
			return each(rows, err, func(rows pgx.Rows) error {
				var line string
				err := rows.Scan(&line)
				plan += line + "\n"
				return err
			})
		}))
		require.NotContains(t, plan, "Seq Scan", q.statement)
		require.NotContains(t, plan, "Hash Join", q.statement)
	}
}
