// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"assay/internal/wire"
)

const (
	ingestBatch   = 1000      // spans of a request
	ingestBytes   = 128 << 20 // of the requests of one load, at least
	senders       = 32        // concurrent requests
	settle        = 2500 * time.Millisecond
	ingestTarget  = 0.5
	ingestWarmUps = 1
)

// transports by name.
var transports = []struct {
	name string
	dial func(s *server) (*sender, error)
}{
	{"HTTP", dialHTTP},
	{"gRPC", dialGRPC},
}

// load is the cost of one load on one server.
type load struct {
	cpu, wall []float64 // seconds, by round
}

// runIngest sends the same load to assay, with its store on disk, and to a Collector, in
// turns, and compares their processor time.
func runIngest(ctx context.Context, s *settings, emit func(*table) error) error {
	recordings, err := readRecordings(s.recordings)
	if err != nil {
		return err
	}
	w, err := newWorkload(recordings, wire.Traces, shape{name: "1,000 spans", records: ingestBatch}, ingestBytes)
	if err != nil {
		return err
	}
	servers, err := startServers(ctx, s)
	defer func() {
		for _, srv := range servers {
			if err := srv.stop(); err != nil {
				fmt.Fprintln(s.log, "bench:", err)
			}
		}
	}()
	if err != nil {
		return err
	}
	// Move the workload's times, which begin in the past, to the present.
	w.renew(time.Since(start) - time.Minute)
	for _, transport := range transports {
		loads := make([]load, len(servers))
		for i := range ingestWarmUps + max(1, (s.rounds+1)/2) {
			w.renew(time.Second)
			for j := range servers {
				k := (i + j) % len(servers)
				cpu, wall, err := transportLoad(ctx, servers[k], transport.dial, w)
				if err != nil {
					return fmt.Errorf("%s: %w", transport.name, servers[k].Explain(err))
				}
				if i >= ingestWarmUps {
					loads[k].cpu = append(loads[k].cpu, cpu.Seconds())
					loads[k].wall = append(loads[k].wall, wall.Seconds())
				}
			}
		}
		if err := emit(ingestTable(transport.name, w, servers, loads)); err != nil {
			return err
		}
	}
	return nil
}

func startServers(ctx context.Context, s *settings) (servers []*server, err error) {
	collector, err := startCollector(ctx, s.collector)
	if err != nil {
		return nil, err
	}
	servers = append(servers, collector)
	// Include the later work for the spans of a load in the measurement: evaluating their
	// traces, scoring.
	a, err := startAssay(ctx, s.assay, "--trace-idle", "1s", "--score-interval", "1s")
	if err != nil {
		return servers, err
	}
	return append(servers, a), nil
}

// transportLoad sends the workload once and waits for the work that follows. It returns
// the server's processor time and the duration of the sending.
func transportLoad(ctx context.Context, srv *server, dial func(*server) (*sender, error), w *workload) (cpu, wall time.Duration, err error) {
	to, err := dial(srv)
	if err != nil {
		return 0, 0, err
	}
	defer to.close()
	evaluated, err := srv.spans(ctx)
	if err != nil {
		return 0, 0, err
	}
	before, err := srv.CPU()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := sendAll(ctx, to, w); err != nil {
		return 0, 0, err
	}
	wall = time.Since(began)
	if err := sleep(ctx, settle); err != nil {
		return 0, 0, err
	}
	after, err := srv.CPU()
	if err != nil {
		return 0, 0, err
	}
	if srv.key != "" {
		now, err := srv.spans(ctx)
		if err != nil {
			return 0, 0, err
		}
		if now-evaluated != w.records {
			return 0, 0, fmt.Errorf("%d spans were evaluated, not %d", now-evaluated, w.records)
		}
	}
	return after - before, wall, nil
}

// spans returns the number of spans that assay has evaluated. A Collector does not report
// it.
func (s *server) spans(ctx context.Context) (int, error) {
	if s.key == "" {
		return 0, nil
	}
	m, err := s.Metrics(ctx)
	return int(m[`assay_records_total{signal="traces"}`]), err
}

func ingestTable(transport string, w *workload, servers []*server, loads []load) *table {
	t := &table{
		Title: fmt.Sprintf("OTLP/%s, plain, over loopback (%d requests of %s spans, %.0f MB a round, %d at a time, %d rounds)",
			transport, len(w.requests), thousands(ingestBatch), float64(w.bytes)/1e6, senders, len(loads[0].cpu)),
		Columns: []string{"CPU s per million spans", "spans/s", "x CPU of the Collector", "min", "max"},
		Notes:   []string{"CPU of the server's process alone, until " + settle.String() + " after the load; spans/s while it lasts"},
	}
	for i, srv := range servers {
		r := paired(loads[i].cpu, loads[0].cpu)
		t.Rows = append(t.Rows, row{srv.Name, []value{
			value(median(loads[i].cpu) / float64(w.records) * 1e6), value(float64(w.records) / median(loads[i].wall)),
			value(r.median()), value(r.min()), value(r.max()),
		}})
	}
	t.Targets = []target{atMost("CPU of assay, the Collector = 1,", ingestTarget, paired(loads[1].cpu, loads[0].cpu).median())}
	return t
}
