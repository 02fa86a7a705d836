// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"assay/internal/assaytest"
)

// answers are the responses of a server to its clients.
type answers struct {
	times []float64 // of requests, in ms
	span  time.Duration
}

func (l *answers) add(o answers) { l.times, l.span = append(l.times, o.times...), l.span+o.span }

func (l *answers) rate() float64 { return float64(len(l.times)) / l.span.Seconds() }

func (l *answers) values() []value {
	return []value{value(l.rate()), value(quantile(l.times, 0.5)), value(quantile(l.times, 0.99))}
}

// repeat sends the same request from several clients for a time. Every response must have the status.
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

// timeStatus sends a request and returns its duration in milliseconds and its status.
func timeStatus(ctx context.Context, client *http.Client, url, key string) (float64, int, error) {
	began := time.Now()
	r, err := assaytest.Do(ctx, client, http.MethodGet, url, key, nil)
	if err != nil {
		return 0, 0, err
	}
	return float64(time.Since(began)) / float64(time.Millisecond), r.Status, nil
}
