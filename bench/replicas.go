// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"assay/internal/assaytest"
	"assay/internal/store/postgres/pgtest"
)

const (
	replicaSpan        = 12 * time.Second
	replicaRounds      = 2
	replicaConnections = 16 // of each server; each waits for one of ten commits a second
	replicaServices    = 20 // in a request
	replicaRecords     = 50 // of each of them
)

// runReplicas measures the throughput of one, two and four servers that share one
// PostgreSQL and the processors.
func runReplicas(ctx context.Context, s *settings, emit func(*table) error) error {
	t := &table{
		Title:   "OTLP/HTTP at servers that share one PostgreSQL, all on one machine; the load grows with them",
		Columns: []string{"records/s", "requests/s", "p99 ms", "servers' CPU s/M records", "PostgreSQL's CPU s/M records"},
		Notes: []string{fmt.Sprintf("%d rounds of %s; %d connections to each server, requests of %d services with %d log records each; every commit on disk",
			replicaRounds, replicaSpan, replicaConnections, replicaServices, replicaRecords)},
	}
	var rates, costs []float64
	for _, n := range []int{1, 2, 4} {
		r, err := replicasOf(ctx, s, n)
		if err != nil {
			return fmt.Errorf("%d servers: %w", n, err)
		}
		millions := float64(len(r.times)) * replicaServices * replicaRecords / 1e6
		rate := millions * 1e6 / r.span.Seconds()
		t.Rows = append(t.Rows, row{fmt.Sprintf("%d servers", n), []value{
			value(rate), value(r.rate()), value(quantile(r.times, 0.99)),
			value(r.servers.Seconds() / millions), value(r.database.Seconds() / millions),
		}})
		rates, costs = append(rates, rate), append(costs, (r.servers+r.database).Seconds()/millions)
	}
	t.Targets = []target{
		atLeast("records/s of four servers, times those of one,", 3.6, rates[2]/rates[0]),
		atMost("processor time per record of all with four servers, times that with one,", 1.1, costs[2]/costs[0]),
	}
	return emit(t)
}

type replicaResult struct {
	answers
	servers, database time.Duration // processor time
}

func replicasOf(ctx context.Context, s *settings, n int) (r replicaResult, err error) {
	database, err := pgtest.Start(pgtest.Config{Durable: true, Settings: postgresSettings})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	var servers []*server
	for i := range n {
		srv, err := startAssay(ctx, s.assay, "--store", database.URL(), "--replica-name", "replica-"+strconv.Itoa(i))
		if err != nil {
			return r, err
		}
		servers = append(servers, srv)
		defer func() { err = errors.Join(err, srv.stop()) }()
	}
	body, err := logsRequest(replicaServices, replicaRecords)
	if err != nil {
		return r, err
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: replicaConnections * n}}
	defer client.CloseIdleConnections()
	for round := range 1 + replicaRounds {
		before, err := cpuOf(servers, database.PID())
		if err != nil {
			return r, err
		}
		sent, err := replicaLoad(ctx, client, servers, body)
		if err != nil {
			return r, err
		}
		after, err := cpuOf(servers, database.PID())
		if err != nil {
			return r, err
		}
		if round == 0 { // warms up
			continue
		}
		r.add(sent)
		r.servers += after[0] - before[0]
		r.database += after[1] - before[1]
	}
	return r, nil
}

// replicaLoad makes clients send one request after the other, each to a server of its
// own.
func replicaLoad(ctx context.Context, client *http.Client, servers []*server, body []byte) (answers, error) {
	all := &fairLoad{client: client}
	all.serial.Store(uint64(time.Now().UnixNano())) // rounds differ
	return callFrom(replicaConnections*len(servers), replicaSpan, func(i int) error {
		srv := servers[i%len(servers)]
		to := &fairLoad{client: client, srv: srv}
		status, err := to.send(ctx, srv.key, "/v1/logs", "", all.unique(body))
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		if err != nil {
			return srv.Explain(err)
		}
		return nil
	})
}

// cpuOf returns the processor time of the servers, and of a process with all its
// descendants, including ended ones.
func cpuOf(servers []*server, root int) (used [2]time.Duration, err error) {
	for _, srv := range servers {
		cpu, err := srv.CPU()
		if err != nil {
			return used, err
		}
		used[0] += cpu
	}
	used[1], err = assaytest.TreeCPU(root)
	return used, err
}
