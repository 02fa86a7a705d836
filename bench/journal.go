// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"assay"
	"assay/internal/engine"
	"assay/internal/lease"
	"assay/internal/store/sqlite"
	"assay/internal/wire"
)

// What the journal bench sends.
const (
	journalBytes   = 60 << 20 // of one pass, at least
	journalSenders = 32
	journalTarget  = 1.1
)

// runJournal takes spans in with and without a journal of open traces.
func runJournal(ctx context.Context, s *settings, emit func(*table) error) error {
	recordings, err := readRecordings(s.recordings)
	if err != nil {
		return err
	}
	for _, sh := range []shape{{name: "requests of 1,000 records", records: 1000}, {name: "requests as recorded"}} {
		w, err := newWorkload(recordings, wire.Traces, sh, journalBytes)
		if err != nil {
			return err
		}
		t, err := compareJournal(ctx, s, w)
		if err != nil {
			return fmt.Errorf("%s: %w", sh.name, err)
		}
		if err := emit(t); err != nil {
			return err
		}
	}
	return nil
}

// intake is an engine with a store on disk, whose clock follows the workload.
type intake struct {
	name         string
	organization string
	store        *sqlite.Store
	engine       *engine.Engine
	clock        atomic.Int64 // Unix nanoseconds
	dir          string

	seconds, passes []float64 // processor time and wall time by round
}

func newIntake(ctx context.Context, name string, journaled bool) (_ *intake, err error) {
	in := &intake{name: name}
	in.clock.Store(start.UnixNano())
	if in.dir, err = os.MkdirTemp("", "assay-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.close(ctx))
		}
	}()
	in.store, err = sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(in.dir, "assay.db"), Migrate: true, Now: in.now})
	if err != nil {
		return nil, err
	}
	o := &assay.Organization{Name: "bench", Tier: assay.TierFree}
	if err := in.store.CreateOrganization(ctx, o); err != nil {
		return nil, err
	}
	in.organization = o.ID
	cfg := engine.Config{Store: in.store, Now: in.now}
	if journaled {
		cfg.Journal = &engine.JournalConfig{Name: "bench", Store: in.store, Leases: lease.New(lease.Config{Store: in.store, TTL: 1000 * time.Hour})}
	}
	in.engine = engine.New(cfg)
	return in, in.engine.TakeOver(ctx)
}

func (in *intake) now() time.Time { return time.Unix(0, in.clock.Load()) }

func (in *intake) close(ctx context.Context) error {
	var errs []error
	if in.engine != nil {
		errs = append(errs, in.engine.Close(ctx))
	}
	if in.store != nil {
		errs = append(errs, in.store.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(in.dir))...)
}

// pass sends the workload while the clock goes on by passTime, and closes traces
// once a second of that.
func (in *intake) pass(ctx context.Context, w *workload) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	failures := make(chan error, journalSenders)
	step := passTime / time.Duration(len(w.requests))
	for range journalSenders {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(len(w.requests)) {
					return
				}
				in.clock.Add(int64(step))
				if _, err := in.engine.Ingest(ctx, in.organization, wire.Traces, w.requests[i].body); err != nil {
					failures <- err
					return
				}
				if each := int64(max(1, len(w.requests)/int(passTime/time.Second))); i%each == each-1 {
					if err := in.engine.CloseTraces(ctx); err != nil {
						failures <- err
						return
					}
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

func compareJournal(ctx context.Context, s *settings, w *workload) (_ *table, err error) {
	var sides []*intake
	defer func() {
		for _, in := range sides {
			err = errors.Join(err, in.close(ctx))
		}
	}()
	for _, name := range []string{"open traces in memory alone", "with a journal"} {
		in, err := newIntake(ctx, name, len(sides) == 1)
		if err != nil {
			return nil, err
		}
		sides = append(sides, in)
	}
	const settle = 5 // rounds until as many traces close as open
	for i := range settle + s.rounds {
		w.renew(passTime)
		for j := range sides {
			in := sides[(i+j)%len(sides)]
			runtime.GC()
			before := time.Now()
			seconds, _, err := timed(func() error { return in.pass(ctx, w) })
			if err != nil {
				return nil, fmt.Errorf("%s: %w", in.name, err)
			}
			if i >= settle {
				in.seconds = append(in.seconds, seconds)
				in.passes = append(in.passes, time.Since(before).Seconds())
			}
		}
	}
	want := uint64((settle + s.rounds) * w.records)
	if s.profile != "" {
		err := s.profiled("journal", func() error {
			for range s.rounds {
				w.renew(passTime)
				if err := sides[1].pass(ctx, w); err != nil {
					return err
				}
			}
			return nil
		})
		return journalTable(w, sides), err
	}
	for _, in := range sides {
		if got := in.engine.Counters().Spans.Load(); got != want {
			return nil, fmt.Errorf("%s: %d spans were taken in, not %d", in.name, got, want)
		}
	}
	return journalTable(w, sides), nil
}

func journalTable(w *workload, sides []*intake) *table {
	t := &table{
		Title:   fmt.Sprintf("%s, %s spans (%.0f MB) a pass, %d senders, SQLite on disk", w.shape.name, thousands(int64(w.records)), float64(w.bytes)/1e6, journalSenders),
		Columns: []string{"CPU s per million spans", "spans/s", "CPU, without = 1", "min", "max"},
	}
	var ratio float64
	for _, in := range sides {
		r := paired(in.seconds, sides[0].seconds)
		ratio = r.median()
		t.Rows = append(t.Rows, row{in.name, []value{
			value(median(in.seconds) / float64(w.records) * 1e6), value(float64(w.records) / median(in.passes)),
			value(r.median()), value(r.min()), value(r.max()),
		}})
	}
	open := sides[1].engine.Traces()
	t.Notes = append(t.Notes, fmt.Sprintf("at the end the journal holds %.1f bytes for each of %s spans of %s open traces",
		float64(open.JournalBytes)/float64(max(1, open.Spans)), thousands(int64(open.Spans)), thousands(int64(open.Traces))))
	t.Targets = append(t.Targets, atMost("processor time with a journal, without = 1,", journalTarget, ratio))
	return t
}
