// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"sync"
	"time"
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

// callFrom makes clients call do repeatedly for a time, or until a call fails. do gets the number of the client.
func callFrom(clients int, span time.Duration, do func(client int) error) (answers, error) {
	var (
		mu   sync.Mutex
		all  answers
		errs []error
		done sync.WaitGroup
	)
	began := time.Now()
	for i := range clients {
		done.Go(func() {
			var times []float64
			var err error
			for err == nil && time.Since(began) < span {
				at := time.Now()
				if err = do(i); err == nil {
					times = append(times, float64(time.Since(at))/float64(time.Millisecond))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.times, errs = append(all.times, times...), append(errs, err)
		})
	}
	done.Wait()
	all.span = time.Since(began)
	return all, errors.Join(errs...)
}
