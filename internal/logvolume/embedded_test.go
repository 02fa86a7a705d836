// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"assay"
)

// records is a store of log records in memory.
type records struct {
	mu     sync.Mutex
	totals map[string]assay.SeverityCounts
	err    error
}

func (r *records) LogRecords(context.Context) (map[string]assay.SeverityCounts, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.totals), r.err
}

func (r *records) add(organizationID string, n assay.SeverityCounts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.totals[organizationID]
	c.Add(&n)
	r.totals[organizationID] = c
}

// world is a store, an Embedded over it, a clock and what was committed when.
type world struct {
	*testing.T
	dir     string
	store   records
	e       *Embedded
	log     logText
	mu      sync.Mutex
	now     int64 // Unix milliseconds
	commits []commitment
	missed  []commitment // committed while nobody watched; of no time yet
}

// logText is a log that is read while it is written.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

type commitment struct {
	at             int64
	organizationID string
	counts         assay.SeverityCounts
}

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: filepath.Join(t.TempDir(), "metrics"), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()}
	w.store.totals = make(map[string]assay.SeverityCounts)
	w.open()
	t.Cleanup(func() {
		if w.e == nil {
			return // could not be opened again
		}
		require.NoError(t, w.e.Close())
		require.NoError(t, w.e.Close(), "again")
	})
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.UnixMilli(w.now)
}

// pass moves the clock and has Run's work done, as it would be.
func (w *world) pass(ms int64) {
	w.step(ms)
	w.e.maintain(w.Context())
}

func (w *world) step(ms int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now += ms
}

func (w *world) config() EmbeddedConfig {
	return EmbeddedConfig{
		Dir: w.dir, Store: &w.store, Now: w.clock, Timeout: time.Minute,
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
}

func (w *world) open() {
	w.Helper()
	var err error
	w.e, err = OpenEmbedded(w.Context(), w.config())
	require.NoError(w, err)
	for _, c := range w.missed {
		c.at = w.e.last.Load()
		w.commits = append(w.commits, c)
	}
	w.missed = nil
}

func (w *world) reopen() {
	w.Helper()
	require.NoError(w, w.e.Close())
	w.open()
}

// crash goes on with the files as they are at this moment, as after SIGKILL.
func (w *world) crash() {
	w.Helper()
	w.e.db.DisableCompactions() // files do not come and go while they are copied
	files := filepath.Join(w.TempDir(), "metrics")
	require.NoError(w, os.CopyFS(files, os.DirFS(w.dir)))
	require.NoError(w, w.e.Close())
	w.dir = files
	w.open()
}

// commit counts in the store and tells the Embedded.
func (w *world) commit(organizationID string, n assay.SeverityCounts) {
	w.Helper()
	before := w.e.last.Load()
	w.store.add(organizationID, n)
	w.e.Add(map[string]assay.SeverityCounts{organizationID: n})
	require.Equal(w, max(w.now, before+1), w.e.last.Load(), "time of the commit")
	w.commits = append(w.commits, commitment{w.e.last.Load(), organizationID, n})
}

// miss counts in the store alone.
func (w *world) miss(organizationID string, n assay.SeverityCounts) {
	w.store.add(organizationID, n)
	w.missed = append(w.missed, commitment{0, organizationID, n})
}

// check compares every period of the organizations with the commits.
func (w *world) check(organizationIDs ...string) {
	w.Helper()
	for _, id := range organizationIDs {
		for _, period := range assay.LogVolumePeriods() {
			got, err := w.e.LogVolume(w.Context(), id, period)
			require.NoError(w, err)
			end := max(w.now, w.e.last.Load())
			want := &assay.LogVolume{Period: period, Start: time.UnixMilli(end).UTC().Add(-period.Duration()), End: time.UnixMilli(end).UTC()}
			ms := period.Duration().Milliseconds()
			for i := range int64(60) {
				p := assay.LogVolumePoint{Start: want.Start.Add(time.Duration(i) * period.Duration() / 60)}
				for _, c := range w.commits {
					if after := end - ms + i*ms/60; c.organizationID == id && c.at > after && c.at <= after+ms/60 {
						p.Counts.Add(&c.counts)
					}
				}
				want.Counts.Add(&p.Counts)
				want.Series = append(want.Series, p)
			}
			for i := range want.Series {
				require.Equal(w, want.Series[i], got.Series[i], "organization %s, period %s, step %d", id, period, i)
			}
			require.Equal(w, want.Counts, got.Counts)
			want.Series, got.Series = nil, nil
			require.Equal(w, want, got)
		}
	}
}

func (w *world) total(organizationID string, period assay.LogVolumePeriod) uint64 {
	w.Helper()
	v, err := w.e.LogVolume(w.Context(), organizationID, period)
	require.NoError(w, err)
	return v.Counts.Total()
}

func counts(n ...uint64) (c assay.SeverityCounts) {
	copy(c[:], n)
	return c
}

// TestEmbeddedCountsExactly does whatever happens to a server, at random, and
// compares all answers with the list of commits.
func TestEmbeddedCountsExactly(t *testing.T) {
	t.Parallel()
	organizations := []string{"a", "b", `quoted "}`}
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t)
			some := func() (c assay.SeverityCounts) {
				for range 1 + r.IntN(3) {
					c[r.IntN(len(c))] += r.Uint64N(1_000_000)
				}
				return c
			}
			any := func() string { return organizations[r.IntN(len(organizations))] }
			for range 60 {
				k := r.IntN(100)
				switch {
				case k < 45:
					for range 1 + r.IntN(20) {
						w.commit(any(), some())
						w.step(r.Int64N(200))
					}
				case k < 60:
					w.pass(r.Int64N(2 * minute))
				case k < 75:
					w.pass(r.Int64N(3 * hour))
				case k < 80:
					w.pass(r.Int64N(2 * day))
				case k < 84:
					w.pass(-r.Int64N(9*minute - (max(w.now, w.e.last.Load()) - w.now)))
				case k < 88:
					w.reopen()
				case k < 90:
					require.NoError(t, w.e.Close())
					w.step(r.Int64N(4 * day))
					w.miss(any(), some())
					w.open()
				case k < 94:
					w.miss(any(), some())
					w.crash()
				default:
					require.NoError(t, w.e.db.Compact(t.Context()))
				}
				if r.IntN(4) == 0 {
					w.check(any())
				}
			}
			w.check(organizations...)
			require.NotContains(t, w.log.String(), "level=ERROR")
			require.NotContains(t, w.log.String(), "clock")
		})
	}
}

// TestEmbeddedManyCommits has chunks of samples that lie in one step, in two and
// in many.
func TestEmbeddedManyCommits(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	w := newWorld(t)
	for _, pause := range []int64{50, 500, 5 * second, minute} {
		for range 500 {
			w.commit("a", counts(1+r.Uint64N(1000), 1))
			w.step(r.Int64N(2 * pause))
		}
		w.check("a")
		w.pass(r.Int64N(2 * minute))
		require.NoError(t, w.e.db.Compact(t.Context()))
		w.check("a")
	}
	w.pass(14 * day)
	w.check("a")
}

func TestEmbeddedPeriodIsHalfOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Zero(t, w.total("a", "1h"), "nothing yet")
	w.step(1)
	w.commit("a", counts(1, 2, 3, 4, 5, 6, 7))
	w.check("a", "b")
	w.step(hour - 1)
	require.EqualValues(t, 28, w.total("a", "1h"))
	w.step(1) // the commit is at the start, which is not in the period
	require.Zero(t, w.total("a", "1h"))
	w.check("a", "b")
	_, err := w.e.LogVolume(t.Context(), "a", "2h")
	require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err))
}

// TestEmbeddedWithoutFiles has totals that nobody knows the times of.
func TestEmbeddedWithoutFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit("a", counts(1_000_000, 7))
	w.commit("b", counts(1))
	require.NoError(t, w.e.Close())
	require.NoError(t, os.RemoveAll(w.dir))
	w.commits = nil
	w.open()
	w.check("a", "b")
	w.step(10)
	w.commit("a", counts(0, 1, 5)) // a known series, and a new one
	w.check("a", "b")
	w.crash()
	w.check("a", "b")
	w.reopen()
	w.check("a", "b")
}

// TestEmbeddedAfterAMonth starts a server that was away for longer than anything is kept.
func TestEmbeddedAfterAMonth(t *testing.T) {
	t.Parallel()
	for _, away := range []int64{32 * day, 400 * day} {
		w := newWorld(t)
		w.commit("a", counts(1_000_000))
		w.crash()
		require.NoError(t, w.e.Close())
		w.step(away)
		w.store.add("a", counts(50)) // some time, nobody knows when
		w.open()
		w.check("a")
		w.commit("a", counts(2))
		w.check("a")
		require.NoError(t, w.e.db.Compact(t.Context()))
		w.check("a")
		w.reopen()
		w.check("a")
	}
}

// TestEmbeddedKeepsIdleSeries crashes after months without a record of one
// severity while others went on.
func TestEmbeddedKeepsIdleSeries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit("idle", counts(1_000_000))
	for range 9 {
		w.pass(5 * day)
		w.commit("busy", counts(0, 1))
		require.NoError(t, w.e.db.Compact(t.Context()))
	}
	require.NotEmpty(t, w.e.db.Blocks())
	require.Greater(t, w.e.db.Blocks()[0].Meta().MinTime, w.now-40*day, "old blocks go")
	w.miss("idle", counts(3))
	w.crash()
	require.EqualValues(t, 3, w.total("idle", "30d"))
	w.check("idle", "busy")
}

func TestEmbeddedClockGoesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit("a", counts(1))
	w.pass(-5 * minute)
	w.commit("a", counts(2)) // waits for the clock
	w.commit("new", counts(3))
	w.check("a", "new")
	w.crash()
	w.check("a", "new")
	w.commit("a", counts(4))
	w.check("a", "new")
	w.pass(4 * minute)
	w.check("a", "new")
	w.pass(3 * hour)
	w.commit("a", counts(5))
	w.check("a", "new")
	require.Empty(t, w.log.String())
}

// TestEmbeddedFuture has the clock far ahead for a while. What was counted
// meanwhile counts as of the moment when the clock is right again; what lies
// before stays as it is.
func TestEmbeddedFuture(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		ahead    int64
		restart  bool
		compact  bool // so that the present is inside a block
		pastGoes bool // retention takes it meanwhile
	}{
		{"hours, in the head", 5 * hour, false, false, false},
		{"hours, in the head, restarted", 5 * hour, true, false, false},
		{"hours, in a block", 5 * hour, false, true, false},
		{"hours, in a block, restarted", 5 * hour, true, true, false},
		{"a year, in the head", 365 * day, false, false, false},
		{"a year, in blocks", 365 * day, false, true, true},
		{"a year, in blocks, restarted", 365 * day, true, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.e.db.DisableCompactions() // those in the background
			w.commit("a", counts(1_000_000))
			for range 8 {
				w.pass(hour)
				w.commit("a", counts(1, 2))
			}
			past := len(w.commits)
			w.pass(test.ahead)
			for range 5 {
				w.commit("a", counts(10))
				w.commit("of the future", counts(0, 0, 3))
				w.pass(hour)
			}
			w.check("a", "of the future")
			if test.compact {
				require.NoError(t, w.e.db.Compact(t.Context()))
			}
			if test.pastGoes {
				w.commits, past = w.commits[past:], 0
			}
			w.check("a", "of the future")
			back := test.ahead + 5*hour - second
			if test.restart {
				require.NoError(t, w.e.Close())
				w.step(-back)
				w.open()
			} else {
				w.pass(-back)
			}
			require.LessOrEqual(t, w.e.last.Load(), w.now+2)
			for i := past; i < len(w.commits); i++ {
				w.commits[i].at = w.e.last.Load()
			}
			require.Contains(t, w.log.String(), "the clock went back")
			w.check("a", "of the future")
			w.step(second)
			w.commit("a", counts(4))
			w.commit("of the future", counts(5))
			w.check("a", "of the future")
			w.crash()
			w.check("a", "of the future")
		})
	}
}

// TestTally has samples on all sides of the period, which is what a query sees
// while records are counted.
func TestTally(t *testing.T) {
	t.Parallel()
	end := time.UnixMilli(100 * day)
	start := end.Add(-time.Hour).UnixMilli()
	type at struct {
		time  int64
		value float64
	}
	for name, test := range map[string]struct {
		chunks [][]at
		want   map[int]uint64
	}{
		"nothing":          {nil, map[int]uint64{}},
		"an empty chunk":   {[][]at{{}}, map[int]uint64{}},
		"one sample":       {[][]at{{{start + 1, 5}}}, map[int]uint64{}},
		"before and after": {[][]at{{{start - 1, 1}, {start, 2}}, {{end.UnixMilli() + 1, 7}, {end.UnixMilli() + 2, 9}}}, map[int]uint64{}},
		"at the edges":     {[][]at{{{start, 1}, {start + 1, 2}, {end.UnixMilli(), 4}, {end.UnixMilli() + 1, 8}}}, map[int]uint64{0: 1, 59: 2}},
		"edges of a step":  {[][]at{{{start, 1}, {start + minute, 2}}, {{start + minute + 1, 4}}}, map[int]uint64{0: 1, 1: 2}},
		"skipped": {[][]at{
			{{start - 5, 1}, {start - 4, 2}},
			{{start - 3, 3}, {start + 5, 4}, {start + minute, 5}},
			{{start + minute + 1, 6}, {start + minute + 2, 7}},
			{{start + minute + 3, 8}},
			{{start + 3*minute, 10}, {start + 4*minute, 20}},
		}, map[int]uint64{0: 2, 1: 3, 2: 2, 3: 10}},
	} {
		v, err := newVolume("1h", end)
		require.NoError(t, err)
		tally := newTally(v, assay.SeverityWarn)
		for _, samples := range test.chunks {
			c := chunkenc.NewXORChunk()
			app, err := c.Appender()
			require.NoError(t, err)
			for _, s := range samples {
				app.Append(0, s.time, s.value)
			}
			require.NoError(t, tally.chunk(c))
		}
		require.NoError(t, tally.end())
		got := make(map[int]uint64)
		for i, p := range v.Series {
			if n := p.Counts.Total(); n > 0 {
				require.Equal(t, n, p.Counts[assay.SeverityWarn])
				got[i] = n
			}
		}
		require.Equal(t, test.want, got, name)
	}
}

// TestEmbeddedClockForward jumps over years, with retention taking what is behind.
func TestEmbeddedClockForward(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit("a", counts(1_000_000))
	w.pass(3 * 365 * day)
	w.check("a")
	w.commit("a", counts(1))
	require.NoError(t, w.e.db.Compact(t.Context()))
	w.check("a")
	w.crash()
	w.check("a")
}

// TestEmbeddedRestoredStore has a store whose totals are lower than what was counted.
func TestEmbeddedRestoredStore(t *testing.T) {
	t.Parallel()
	for _, away := range []int64{second, day} {
		w := newWorld(t)
		w.commit("a", counts(1000, 1000, 1000))
		w.step(hour / 2)
		w.commit("a", counts(10))
		require.NoError(t, w.e.Close())
		w.store.totals["a"] = counts(1003, 0, 1000)
		w.step(away)
		w.open()
		w.check("a")
		w.step(second)
		w.commit("a", counts(50, 60, 70))
		w.check("a")
		w.reopen()
		w.check("a")
		w.crash()
		for range 500 { // in chunks of which only the first samples are looked at
			w.commit("a", counts(2000))
		}
		w.check("a")
	}
}

func TestEmbeddedDamage(t *testing.T) {
	t.Parallel()
	garbage := bytes.Repeat([]byte("garbage "), 1000)
	overwrite := func(pattern string, data []byte) func(*world) {
		return func(w *world) {
			names, err := filepath.Glob(filepath.Join(w.dir, databaseDir, pattern))
			require.NoError(w, err)
			require.NotEmpty(w, names)
			for _, name := range names {
				if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
					require.NoError(w, os.WriteFile(name, data, 0o600))
				}
			}
		}
	}
	replaceByFile := func(name string) func(*world) {
		return func(w *world) {
			name := filepath.Join(w.dir, databaseDir, name)
			require.NoError(w, os.RemoveAll(name))
			require.NoError(w, os.WriteFile(name, garbage, 0o600))
		}
	}
	tests := map[string]func(*world){
		"log is garbage":         overwrite("wal/0*", garbage),
		"head is gone":           func(w *world) { require.NoError(w, os.RemoveAll(filepath.Join(w.dir, databaseDir, "wal"))) },
		"log ends early":         overwrite("wal/0*", []byte{1}),
		"log is a file":          replaceByFile("wal"),
		"chunks are garbage":     overwrite("chunks_head/*", garbage),
		"checkpoint is garbage":  overwrite("wal/checkpoint.*/0*", garbage),
		"index is garbage":       overwrite("0*/index", garbage),
		"index is empty":         overwrite("0*/index", nil),
		"meta is garbage":        overwrite("0*/meta.json", garbage),
		"meta is empty":          overwrite("0*/meta.json", nil),
		"block's chunks garbage": overwrite("0*/chunks/*", garbage),
		"tombstones are garbage": overwrite("0*/tombstones", garbage),
		"the database is a file": replaceByFile("."),
		"everything is empty":    func(w *world) { overwrite("*/*", nil)(w) },
		"a half-written block": func(w *world) {
			require.NoError(w, os.MkdirAll(filepath.Join(w.dir, databaseDir, "01KAMH8K2A2Q3V4W5X6Y7Z8A9B"), 0o700))
		},
	}
	blocks := []string{ // the cases that damage those
		"index is garbage", "index is empty", "meta is garbage", "meta is empty", "block's chunks garbage", "tombstones are garbage",
		"the database is a file", "everything is empty",
	}
	whole := newWorld(t)
	whole.commit("a", counts(1_000_000))
	for range 30 { // far enough for blocks and a checkpoint
		whole.pass(hour)
		whole.commit("a", counts(1))
		if whole.now/hour%5 == 0 {
			require.NoError(t, whole.e.db.Compact(t.Context()))
		}
	}
	require.NoError(t, whole.e.Close())
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, dir: filepath.Join(t.TempDir(), "metrics"), now: whole.now}
			w.store.totals = maps.Clone(whole.store.totals)
			require.NoError(t, os.CopyFS(w.dir, os.DirFS(whole.dir)))
			damage(w)
			w.open()
			before := w.total("a", "30d")
			require.LessOrEqual(t, before, uint64(1_000_030), "nothing was invented")
			if !slices.Contains(blocks, name) {
				require.Equal(t, uint64(1_000_030), before, "what the head loses is made up for")
			}
			w.pass(second)
			w.commit("a", counts(5))
			require.Equal(t, before+5, w.total("a", "30d"))
			w.reopen()
			require.Equal(t, before+5, w.total("a", "30d"))
			require.NoError(t, w.e.db.Compact(t.Context()))
			require.Equal(t, before+5, w.total("a", "30d"))
			require.NoError(t, w.e.Close())
		})
	}
}

func TestEmbeddedCannotOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := OpenEmbedded(t.Context(), w.config())
	require.ErrorContains(t, err, "one process at a time")

	cfg := w.config()
	cfg.Dir = filepath.Join(w.dir, lockFile, "below a file")
	_, err = OpenEmbedded(t.Context(), cfg)
	require.Error(t, err)

	cfg = w.config()
	cfg.Store = &records{err: errors.New("away")}
	_, err = OpenEmbedded(t.Context(), cfg)
	require.ErrorContains(t, err, "away")
}

// refusing is an appender of a full disk.
type refusing struct {
	storage.Appender
	commit bool // refuse then
}

var errFull = errors.New("no space left on device")

func (r refusing) Append(ref storage.SeriesRef, l labels.Labels, at int64, v float64) (storage.SeriesRef, error) {
	if r.commit {
		return r.Appender.Append(ref, l, at, v)
	}
	return 0, errFull
}

func (r refusing) Commit() error { return errors.Join(errFull, r.Rollback()) }

func TestEmbeddedDiskFull(t *testing.T) {
	t.Parallel()
	for _, atCommit := range []bool{false, true} {
		w := newWorld(t)
		w.commit("a", counts(1))
		w.pass(second)
		healthy := w.e.appender
		w.e.appender = func(ctx context.Context) storage.Appender { return refusing{healthy(ctx), atCommit} }
		lost := []map[string]assay.SeverityCounts{{"a": counts(2)}, {"a": counts(0, 0, 3), "new": counts(4)}, {"a": counts(5)}}
		for _, n := range lost {
			w.e.Add(n)
			for id, c := range n {
				w.store.add(id, c)
			}
			w.pass(second)
		}
		w.check("a", "new")
		require.Equal(t, 1, strings.Count(w.log.String(), "could not be written"), w.log.String())
		w.pass(minute)
		require.Equal(t, 2, strings.Count(w.log.String(), "could not be written"), "once a minute")

		w.e.appender = healthy
		w.pass(second)
		require.Contains(t, w.log.String(), "written again")
		for _, n := range lost {
			for id, c := range n {
				w.commits = append(w.commits, commitment{w.e.last.Load(), id, c})
			}
		}
		w.check("a", "new")
		w.crash()
		w.check("a", "new")
	}
}

// TestEmbeddedLosesItsFiles has the database vanish while it is replaced.
func TestEmbeddedLosesItsFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit("a", counts(1_000_000))
	w.pass(second)
	db := w.e.db
	w.e.db = nil
	_, err := w.e.LogVolume(t.Context(), "a", "1h")
	require.Equal(t, assay.CodeUpstream, assay.ErrorCode(err))
	w.store.add("a", counts(7))
	w.e.Add(map[string]assay.SeverityCounts{"a": counts(7)})
	require.Contains(t, w.log.String(), "not open")
	require.NoError(t, db.Close())
	w.pass(second)
	w.commits = append(w.commits, commitment{w.e.last.Load(), "a", counts(7)})
	w.check("a")
}

func TestEmbeddedTimeIsUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit("a", counts(1))
	w.e.cfg.Timeout = time.Nanosecond
	_, err := w.e.LogVolume(t.Context(), "a", "1h")
	require.Equal(t, assay.CodeUpstream, assay.ErrorCode(err))
}

// TestEmbeddedConcurrently adds, asks, maintains, compacts and closes at once.
func TestEmbeddedConcurrently(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running, asking sync.WaitGroup
	running.Go(func() { w.e.Run(ctx) })
	var done sync.WaitGroup
	done.Go(func() {
		for i := range 300 {
			w.store.add("a", counts(1))
			w.e.Add(map[string]assay.SeverityCounts{"a": counts(1)})
			// What was added is in the next answer.
			v, err := w.e.LogVolume(ctx, "a", "30d")
			assert.NoError(t, err)
			assert.EqualValues(t, i+1, v.Counts.Total())
			w.step(int64(i) * 10 * second)
		}
	})
	for range 3 {
		asking.Go(func() {
			var last uint64
			for ctx.Err() == nil {
				v, err := w.e.LogVolume(context.Background(), "a", "30d")
				if err != nil {
					assert.Equal(t, assay.CodeUpstream, assay.ErrorCode(err))
					continue
				}
				assert.GreaterOrEqual(t, v.Counts.Total(), last)
				last = v.Counts.Total()
				w.e.maintain(ctx)
			}
		})
	}
	done.Wait()
	require.NoError(t, w.e.Close())
	_, err := w.e.LogVolume(t.Context(), "a", "1h")
	require.Equal(t, assay.CodeUpstream, assay.ErrorCode(err))
	w.e.Add(map[string]assay.SeverityCounts{"a": counts(1)}) // is lost here and in nobody's way
	w.e.maintain(t.Context())
	cancel()
	asking.Wait()
	running.Wait()
}
