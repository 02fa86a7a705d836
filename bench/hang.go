// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"assay/internal/assaytest"
)

const (
	hangRounds  = 4
	hangSpan    = 6 * time.Second // of each half of a round; longer than the timeout of a log volume query
	hangReaders = 4               // clients that list services
	hangTarget  = 0.9             // of the throughput without waiting clients
)

// hang is an upstream that accepts every connection and never responds, and the clients that need it.
type hang struct {
	name    string
	flags   func(url string) []string
	path    string
	clients int
	arrive  int     // concurrent requests that reach the upstream
	limit   float64 // seconds until each is answered with 502; 0: they wait longer than a round
}

var hangs = []hang{
	{"metrics store", func(url string) []string { return []string{"--metrics-store", url} }, "/v1/analytics/log-volume", 50, 1, 6},
	{"agent backend", func(url string) []string {
		return []string{"--agent-backend-url", url, "--agent-timeout", (5 * hangSpan).String()}
	}, "/v1/agent/executions", 1000, 1000, 0},
}

// runHang measures another operation while clients wait for an upstream that hangs.
func runHang(ctx context.Context, s *settings, emit func(*table) error) error {
	for _, h := range hangs {
		t, err := h.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", h.name, err)
		}
		if err := emit(t); err != nil {
			return err
		}
	}
	return nil
}

func (h *hang) measure(ctx context.Context, s *settings) (t *table, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	upstream := &silent{Listener: l}
	defer upstream.Close()
	go upstream.swallow()

	srv, err := startAssay(ctx, s.assay, "", h.flags("http://"+l.Addr().String())...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	var slowest float64
	t = &table{
		Title: fmt.Sprintf("GET /v1/services by %d clients while the %s hangs and %s clients wait for it",
			hangReaders, h.name, thousands(int64(h.clients))),
	}
	names := [2]string{"no client waits", thousands(int64(h.clients)) + " wait"}
	ratio, err := t.compare(ctx, srv, names, func() (func() error, error) {
		release, err := h.wait(ctx, "http://"+srv.rest+"/api"+h.path, srv.key, upstream)
		return func() error {
			waited, err := release()
			slowest = max(slowest, waited)
			return err
		}, err
	})
	if err != nil {
		return nil, srv.Explain(err)
	}
	t.Targets = []target{atLeast("throughput while they wait, times that without,", hangTarget, ratio)}
	if h.limit > 0 {
		t.Targets = append(t.Targets, atMost("seconds until a request is answered with 502", h.limit, slowest))
	}
	return t, nil
}

// compare lists services from a few clients, alone and while something else runs, by turns. start starts it and returns
// what ends it. compare adds a row for each side and returns the throughput beside it, times that alone.
func (t *table) compare(ctx context.Context, srv *server, names [2]string, start func() (end func() error, err error)) (ratio float64, err error) {
	client := &http.Client{Timeout: assaytest.Limit, Transport: &http.Transport{MaxIdleConnsPerHost: hangReaders}}
	defer client.CloseIdleConnections()
	list := func() (answers, error) {
		return callFrom(hangReaders, hangSpan, func(int) error {
			_, err := assaytest.Get(ctx, client, "http://"+srv.rest+"/api/v1/services", srv.key)
			return err
		})
	}
	var alone, beside answers
	var ratios []float64
	for range hangRounds {
		if err := srv.calm(ctx); err != nil {
			return 0, err
		}
		calm, err := list()
		if err != nil {
			return 0, err
		}
		end, err := start()
		if err != nil {
			return 0, err
		}
		during, err := list()
		if err = errors.Join(err, end()); err != nil {
			return 0, err
		}
		ratios = append(ratios, during.rate()/calm.rate())
		alone.add(calm)
		beside.add(during)
	}
	t.Columns = []string{"requests/s", "p50 ms", "p99 ms"}
	t.Rows = []row{{names[0], alone.values()}, {names[1], beside.values()}}
	t.Notes = append(t.Notes, fmt.Sprintf("%d rounds of %s each way, by turns", hangRounds, hangSpan))
	return median(ratios), nil
}

// wait makes clients request a URL repeatedly, and returns when requests have reached the upstream. release
// stops the clients and returns the seconds of the slowest response. A response other than 502 is an error.
func (h *hang) wait(ctx context.Context, url, key string, upstream *silent) (release func() (float64, error), err error) {
	ctx, cancel := context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: h.clients}}
	before := upstream.connections.Load()
	var (
		clients sync.WaitGroup
		mu      sync.Mutex
		slowest float64
		failure error
	)
	for range h.clients {
		clients.Go(func() {
			for ctx.Err() == nil {
				at := time.Now()
				r, err := assaytest.Do(ctx, client, http.MethodGet, url, key, nil)
				took := time.Since(at)
				if ctx.Err() != nil {
					return
				}
				if err == nil && (r.Status != http.StatusBadGateway || h.limit == 0) {
					err = fmt.Errorf("GET %s: status %d after %s", url, r.Status, took)
				}
				mu.Lock()
				slowest, failure = max(slowest, took.Seconds()), errors.Join(failure, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	release = func() (float64, error) {
		cancel()
		clients.Wait()
		client.CloseIdleConnections()
		return slowest, failure
	}
	err = assaytest.Await(ctx, assaytest.Limit, assaytest.PollInterval, func() error {
		if n := upstream.connections.Load() - before; n < int64(h.arrive) {
			return fmt.Errorf("%d of %d requests reached the upstream", n, h.arrive)
		}
		return nil
	})
	if err != nil {
		_, failure := release()
		return nil, errors.Join(err, failure)
	}
	return release, nil
}

// silent is a listener whose connections get no response.
type silent struct {
	net.Listener
	connections atomic.Int64 // accepted ones
}

// swallow accepts connections until the listener is closed.
func (l *silent) swallow() {
	var open []net.Conn
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		l.connections.Add(1)
		open = append(open, c)
	}
	for _, c := range open {
		c.Close()
	}
}
