// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/internal/assaytest"
	"assay/internal/wire"
)

const (
	soakSenders  = 48
	soakBytes    = 4 << 20 // of each signal's requests of one sender, at least; they are new each time
	soakRecords  = 500     // of a request
	soakCapacity = time.Minute
	soakShare    = 0.7
	soakWarmUp   = 5 * time.Minute // before the first sample that counts: traces stay open for up to ten, most for half a one
	soakSamples  = 60
)

// soakMetrics are the metrics that must stay constant, by their names in /metrics.
var soakMetrics = []struct {
	name, title string
	unit        float64
}{
	{"process_resident_memory_bytes", "resident memory, MiB", 1 << 20},
	{"go_memstats_heap_inuse_bytes", "heap in use, MiB", 1 << 20},
	{"process_open_fds", "open files", 1},
	{"go_goroutines", "goroutines", 1},
	{"assay_open_trace_bytes", "open traces, MiB", 1 << 20},
}

// runSoak measures the maximum throughput of a server and then sends seven tenths of it
// for a long time.
func runSoak(ctx context.Context, s *settings, emit func(*table) error) (err error) {
	recordings, err := readRecordings(s.recordings)
	if err != nil {
		return err
	}
	srv, err := startAssay(ctx, s.assay)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: soakSenders}}
	defer client.CloseIdleConnections()
	senders := make([]*soakSender, soakSenders)
	for i := range senders {
		if senders[i], err = newSoakSender(srv, client, recordings, uint64(i)); err != nil {
			return err
		}
	}

	capacity, err := soakLoad(ctx, senders, soakCapacity, 0)
	if err != nil {
		return srv.Explain(err)
	}
	fmt.Fprintf(s.log, "soak: the server takes %.1f MB/s; %s at %.0f %% of that\n", capacity/1e6, s.soak, 100*soakShare)
	sampling, stopSampling := context.WithCancel(ctx)
	defer stopSampling()
	sampled := make(chan soakSeries, 1)
	go func() { sampled <- sampleMetrics(sampling, srv, s.soak) }()
	rate, err := soakLoad(ctx, senders, s.soak, soakShare*capacity)
	stopSampling()
	series := <-sampled
	if err != nil {
		return srv.Explain(err)
	}
	if series.err != nil {
		return series.err
	}
	return emit(soakTable(s.soak, capacity, rate, series))
}

func soakTable(span time.Duration, capacity, rate float64, series soakSeries) *table {
	t := &table{
		Title:   fmt.Sprintf("a server that takes traces, metrics and logs for %s", span),
		Columns: []string{"first third", "second third", "last third", "most"},
		Notes: []string{fmt.Sprintf("it took %.1f MB/s of uncompressed OTLP at most and was sent %.1f MB/s; medians of %d samples, the first of them after a sixth of the time",
			capacity/1e6, rate/1e6, len(series.samples))},
	}
	for i, m := range soakMetrics {
		values := make([]float64, len(series.samples))
		for j := range series.samples {
			values[j] = series.samples[j][i] / m.unit
		}
		third := len(values) / 3
		first, last := median(values[:third]), median(values[len(values)-third:])
		t.Rows = append(t.Rows, row{m.title, []value{
			value(first), value(median(values[third : len(values)-third])), value(last), value(slices.Max(values)),
		}})
		if i < 4 && first > 0 {
			t.Targets = append(t.Targets, atMost(m.title+" in the last third, times the first,", 1.1, last/first))
		}
	}
	return t
}

// soakSender sends unique requests.
type soakSender struct {
	srv       *server
	client    *http.Client
	workloads []*workload
	renewed   time.Time
}

func newSoakSender(srv *server, client *http.Client, recordings []recording, seed uint64) (*soakSender, error) {
	p := &soakSender{srv: srv, client: client, renewed: start}
	for _, signal := range []wire.Signal{wire.Traces, wire.Metrics, wire.Logs} {
		w, err := newWorkload(recordings, signal, shape{name: "soak", records: soakRecords}, soakBytes)
		if err != nil {
			return nil, err
		}
		w.rng = rand.New(rand.NewPCG(seed, uint64(signal)))
		p.workloads = append(p.workloads, w)
	}
	return p, nil
}

// send sends every request once, perSecond bytes of them, or without a limit for 0, until
// the end or until ctx ends. It returns the number of accepted bytes.
func (p *soakSender) send(ctx context.Context, end time.Time, perSecond float64) (taken int, err error) {
	began := time.Now()
	over := func() bool { return ctx.Err() != nil || !time.Now().Before(end) }
	for !over() {
		now := time.Now()
		for _, w := range p.workloads {
			w.renew(now.Sub(p.renewed))
		}
		p.renewed = now
		for _, w := range p.workloads {
			for i := range w.requests {
				if perSecond > 0 {
					due := began.Add(time.Duration(float64(taken) / perSecond * float64(time.Second)))
					_ = sleep(ctx, time.Until(due)) // over reports the end of ctx
				}
				if over() {
					return taken, nil
				}
				if err := p.post(ctx, w.signal, w.requests[i].body); err != nil {
					return taken, err
				}
				taken += len(w.requests[i].body)
			}
		}
	}
	return taken, nil
}

func (p *soakSender) post(ctx context.Context, signal wire.Signal, body []byte) error {
	for {
		r, err := assaytest.Post(ctx, p.client, p.srv.OTLPHTTP, p.srv.key, signal, body)
		switch {
		case err != nil:
			return err
		case r.Status == http.StatusOK:
			return nil
		case r.Status != http.StatusServiceUnavailable:
			return fmt.Errorf("POST %s: status %d", signal, r.Status)
		}
		if err := sleep(ctx, fairBackoff); err != nil {
			return err
		}
	}
}

// soakLoad makes all senders send and returns the accepted bytes per second.
func soakLoad(ctx context.Context, senders []*soakSender, span time.Duration, perSecond float64) (float64, error) {
	group, ctx := errgroup.WithContext(ctx)
	var total atomic.Int64
	began := time.Now()
	for _, p := range senders {
		group.Go(func() error {
			taken, err := p.send(ctx, began.Add(span), perSecond/float64(len(senders)))
			total.Add(int64(taken))
			return err
		})
	}
	err := group.Wait()
	return float64(total.Load()) / time.Since(began).Seconds(), err
}

// soakSeries are samples of soakMetrics.
type soakSeries struct {
	samples [][]float64
	err     error
}

// sampleMetrics reads /metrics at even intervals of the time after the warm-up.
func sampleMetrics(ctx context.Context, srv *server, span time.Duration) (s soakSeries) {
	warmUp := min(soakWarmUp, span/6)
	interval := (span - warmUp) / soakSamples
	wait := warmUp
	for {
		select {
		case <-ctx.Done():
			if len(s.samples) < soakSamples/2 {
				s.err = fmt.Errorf("only %d samples were taken", len(s.samples))
			}
			return s
		case <-time.After(wait):
		}
		wait = interval
		m, err := srv.Metrics(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.err = err
				return s
			}
			continue
		}
		sample := make([]float64, len(soakMetrics))
		for i, metric := range soakMetrics {
			sample[i] = m[metric.name]
		}
		s.samples = append(s.samples, sample)
	}
}
