// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	hangRounds  = 4
	hangSpan    = 6 * time.Second // of each half of a round: longer than a query may take
	hangReaders = 4               // clients that list services
	hangAsking  = 50              // clients that wait for log volume
	hangLimit   = 6               // seconds in which log volume has to be refused
)

// runHang measures the other operations while the metrics store takes every
// connection and never answers.
func runHang(ctx context.Context, s *settings, emit func(*table) error) (err error) {
	store, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer store.Close()
	go swallow(store)

	dir, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	srv, err := startAssay(ctx, s.assay, dir, "--metrics-store", "http://"+store.Addr().String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()

	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: hangReaders + hangAsking}}
	defer client.CloseIdleConnections()
	root := "http://" + srv.rest + "/api/v1"
	var calm, beside answers
	var slowest float64
	var ratio []float64
	for range hangRounds {
		alone, err := repeat(ctx, client, root+"/services", srv.key, http.StatusOK, hangReaders, hangSpan)
		if err != nil {
			return srv.explain(err)
		}
		var refused answers
		asked := make(chan error, 1)
		go func() {
			var err error
			refused, err = repeat(ctx, client, root+"/analytics/log-volume", srv.key, http.StatusBadGateway, hangAsking, hangSpan)
			asked <- err
		}()
		during, err := repeat(ctx, client, root+"/services", srv.key, http.StatusOK, hangReaders, hangSpan)
		if err = errors.Join(err, <-asked); err != nil {
			return srv.explain(err)
		}
		slowest = max(slowest, quantile(refused.times, 1)/1000)
		ratio = append(ratio, during.rate()/alone.rate())
		calm.add(alone)
		beside.add(during)
	}
	t := &table{
		Title:   fmt.Sprintf("GET /v1/services by %d clients while the metrics store hangs and %d clients ask for log volume", hangReaders, hangAsking),
		Columns: []string{"requests/s", "p50 ms", "p99 ms"},
		Rows: []row{
			{"nobody asks for log volume", calm.values()},
			{"log volume hangs", beside.values()},
		},
		Notes: []string{fmt.Sprintf("%d rounds of %s each way, by turns", hangRounds, hangSpan)},
		Targets: []target{
			atLeast("throughput while it hangs, times that without,", 0.9, median(ratio)),
			atMost("seconds until log volume is refused with 502", hangLimit, slowest),
		},
	}
	return emit(t)
}

// swallow takes connections and never answers.
func swallow(l net.Listener) {
	var open []net.Conn
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		open = append(open, c)
	}
	for _, c := range open {
		c.Close()
	}
}

// answers are what clients saw of a server.
type answers struct {
	times []float64 // of requests, in ms
	span  time.Duration
}

func (l *answers) add(o answers) { l.times, l.span = append(l.times, o.times...), l.span+o.span }

func (l *answers) rate() float64 { return float64(len(l.times)) / l.span.Seconds() }

func (l *answers) values() []value {
	return []value{value(l.rate()), value(quantile(l.times, 0.5)), value(quantile(l.times, 0.99))}
}

// repeat has clients do the same request again and again for a time. Every answer
// has to have the status.
func repeat(ctx context.Context, client *http.Client, url, key string, status, clients int, span time.Duration) (answers, error) {
	var (
		mu   sync.Mutex
		all  answers
		errs []error
		done sync.WaitGroup
	)
	began := time.Now()
	for range clients {
		done.Go(func() {
			var times []float64
			var failure error
			for failure == nil && time.Since(began) < span {
				took, got, err := timeStatus(ctx, client, url, key)
				if err == nil && got != status {
					err = fmt.Errorf("GET %s: status %d", url, got)
				}
				if failure = err; err == nil {
					times = append(times, took)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.times = append(all.times, times...)
			errs = append(errs, failure)
		})
	}
	done.Wait()
	all.span = time.Since(began)
	return all, errors.Join(errs...)
}
