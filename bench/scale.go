// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/score"
	"assay/internal/store/inspect"
	"assay/internal/store/postgres"
	"assay/internal/store/postgres/pgtest"
	"assay/internal/store/sqlite"
)

// scaleStore is the part of a store that this bench uses.
type scaleStore interface {
	score.Store
	assay.OrganizationStore
	Commit(ctx context.Context, now time.Time, requests []delta.Request, merge func(fresh []bool) *delta.Delta) error
	Stats(ctx context.Context) (*inspect.Stats, error)
	Close() error
}

const (
	scaleRules   = 20 // rules evaluated for each service; every fourth of them fails
	scaleClaims  = 20 // metrics of each service
	scaleCommits = 5  // of each size
	scaleRounds  = 3  // of scoring
	scaleLargest = 10_000
	monthSize    = 50 // services with a stored month
	monthHours   = 720
)

// runScale measures the cost of a commit, of scoring and of the store by the number of
// services.
func runScale(ctx context.Context, s *settings, emit func(*table) error) error {
	for _, kind := range []struct {
		name string
		open func(ctx context.Context, now func() time.Time) (scaleStore, func() error, error)
	}{{"SQLite", openSQLite}, {"PostgreSQL", openPostgres}} {
		if err := scaleOf(ctx, s, kind.name, kind.open, emit); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return nil
}

func openSQLite(ctx context.Context, now func() time.Time) (scaleStore, func() error, error) {
	dir, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "assay.db"), Migrate: true, Now: now})
	if err != nil {
		return nil, nil, err
	}
	return store, func() error { return errors.Join(store.Close(), os.RemoveAll(dir)) }, nil
}

// openPostgres opens a store on a server of its own, with commits on disk.
func openPostgres(ctx context.Context, now func() time.Time) (scaleStore, func() error, error) {
	server, err := pgtest.Start(pgtest.Config{Durable: true, Settings: postgresSettings})
	if err != nil {
		return nil, nil, err
	}
	store, err := postgres.Open(ctx, postgres.Config{URL: server.URL(), Migrate: true, Now: now})
	if err != nil {
		return nil, nil, errors.Join(err, server.Close())
	}
	return store, func() error { return errors.Join(store.Close(), server.Close()) }, nil
}

var postgresSettings = map[string]string{"shared_buffers": "512MB", "max_wal_size": "4GB"}

func scaleOf(ctx context.Context, _ *settings, name string, open func(context.Context, func() time.Time) (scaleStore, func() error, error), emit func(*table) error) (err error) {
	now := start
	store, closeStore, err := open(ctx, func() time.Time { return now })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()

	commits := &table{
		Title:   "one transaction with what some services sent, on " + name,
		Columns: []string{"ms", "µs/service"},
		Notes: []string{fmt.Sprintf("medians of %d; on disk when it returns; %d rules and three signals of each service, every fourth rule with evidence",
			scaleCommits, scaleRules)},
	}
	var per []float64
	var largest string
	for _, services := range []int{100, 1000, scaleLargest} {
		org := &assay.Organization{Name: "commits of " + strconv.Itoa(services), Tier: assay.TierFree}
		if err := store.CreateOrganization(ctx, org); err != nil {
			return err
		}
		var times []float64
		for round := range 1 + scaleCommits {
			took, err := scaleCommit(ctx, store, scaleDelta(org.ID, services, round, 0, now), now)
			if err != nil {
				return err
			}
			if round > 0 { // the first creates the services
				times = append(times, took.Seconds()*1000)
			}
		}
		ms := median(times)
		per, largest = append(per, ms/float64(services)), org.ID
		commits.Rows = append(commits.Rows, row{thousands(int64(services)) + " services", []value{value(ms), value(1000 * ms / float64(services))}})
	}
	commits.Targets = []target{atMost("time for each of 10,000 services, times that for each of 1,000,", 1.1, per[2]/per[1])}
	if err := emit(commits); err != nil {
		return err
	}

	scoring, err := scaleScoring(ctx, store, name, largest, &now)
	if err != nil {
		return err
	}
	if err := emit(scoring); err != nil {
		return err
	}
	size, err := scaleMonth(ctx, name, open)
	if err != nil {
		return err
	}
	return emit(size)
}

// scaleScoring measures rounds of scoring after all services sent telemetry.
func scaleScoring(ctx context.Context, store scaleStore, name, org string, now *time.Time) (*table, error) {
	scorer := score.New(score.Config{Store: store, Now: func() time.Time { return *now }})
	var first float64
	var later []float64
	for round := range 1 + scaleRounds {
		*now = now.Add(2 * time.Minute)
		if _, err := scaleCommit(ctx, store, scaleDelta(org, scaleLargest, 100+round, scaleClaims, *now), *now); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := scorer.Round(ctx); err != nil {
			return nil, err
		}
		if took := time.Since(began).Seconds(); round == 0 {
			first = took
		} else {
			later = append(later, took)
		}
	}
	return &table{
		Title:   fmt.Sprintf("scoring %s services with %s metric names, on %s", thousands(scaleLargest), thousands(scaleLargest*scaleClaims), name),
		Columns: []string{"seconds", "services/s"},
		Rows: []row{
			{"the first round, which opens insights", []value{value(first), value(scaleLargest / first)}},
			{"a later round, all services changed", []value{value(median(later)), value(scaleLargest / median(later))}},
		},
		Notes: []string{"the first round scores the services of the table above, too: 1,100 more"},
		Targets: []target{
			atMost("seconds for all services", 10, max(first, quantile(later, 1))),
		},
	}, nil
}

// scaleMonth stores a month of some services and returns its time and size.
func scaleMonth(ctx context.Context, name string, open func(context.Context, func() time.Time) (scaleStore, func() error, error)) (t *table, err error) {
	now := start
	store, closeStore, err := open(ctx, func() time.Time { return now })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	org := &assay.Organization{Name: "month", Tier: assay.TierFree}
	if err := store.CreateOrganization(ctx, org); err != nil {
		return nil, err
	}
	before, err := store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	scorer := score.New(score.Config{Store: store, Now: func() time.Time { return now }})
	for hour := range monthHours {
		if _, err := scaleCommit(ctx, store, scaleDelta(org.ID, monthSize, hour, scaleClaims, now), now); err != nil {
			return nil, err
		}
		if err := scorer.Round(ctx); err != nil {
			return nil, err
		}
		now = now.Add(time.Hour)
	}
	after, err := store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	t = &table{
		Title:   fmt.Sprintf("the size of the store for a month of %d services that send every hour, on %s", monthSize, name),
		Columns: []string{"KiB/service", "rows/service"},
		Notes: []string{fmt.Sprintf("%d hours with %d rules and %d metric names each, scored every hour; tables and their indexes",
			monthHours, scaleRules, scaleClaims)},
	}
	empty := make(map[string]int64)
	for _, table := range before.Tables {
		empty[table.Name] = table.Bytes
	}
	var all int64
	for _, table := range after.Tables {
		bytes := table.Bytes - empty[table.Name]
		all += bytes
		if bytes > 0 {
			t.Rows = append(t.Rows, row{table.Name, []value{value(float64(bytes) / 1024 / monthSize), value(float64(table.Rows) / monthSize)}})
		}
	}
	t.Rows = append(t.Rows, row{"all tables", []value{value(float64(all) / 1024 / monthSize), none}})
	return t, nil
}

func scaleCommit(ctx context.Context, store scaleStore, d *delta.Delta, now time.Time) (time.Duration, error) {
	request := delta.Request{Hash: uuid.New()}
	for id := range d.Organizations {
		request.OrganizationID = id
	}
	began := time.Now()
	err := store.Commit(ctx, now, []delta.Request{request}, func([]bool) *delta.Delta { return d })
	return time.Since(began), err
}

// scaleDelta is the delta of a number of services in one group of requests: counts of
// rules, usage, and for a failing rule an example and an item of evidence.
func scaleDelta(org string, services, round, claims int, at time.Time) *delta.Delta {
	d := new(delta.Delta)
	nano := uint64(at.UnixNano())
	b := delta.BucketOf(nano, time.Hour)
	o := d.Organization(org)
	for i := range services {
		f := o.Service(assay.ServiceKey{Namespace: "shop", Name: "service-" + strconv.Itoa(i), Environment: "production", Version: "1.2.3"})
		f.Seen(nano + uint64(round))
		resource := fmt.Sprintf(`{"service.name":"service-%d","k8s.pod.name":"pod-%d","k8s.node.name":"node-%d","padding":"%0400d"}`, i, i, i%50, i)
		for r := range scaleRules {
			c := delta.Count{Observed: 100}
			if r%4 == 0 {
				c.Failed = 3
				f.AddExample(catalog.Rule(r), &delta.Example{TimeUnixNano: nano + uint64(round), ResourceAttributes: resource})
				f.AddItem(delta.Item{Rule: catalog.Rule(r), List: delta.AttributeKeys, Text: fmt.Sprintf("attribute.%d", round%20)}, b)
			}
			f.Counts(b)[r].Add(c)
		}
		for s := range delta.SignalCount {
			f.AddUsage(b, s, delta.Usage{Items: 100, Bytes: 20_000})
		}
		for m := range claims {
			text := fmt.Sprintf("http.server.metric.%d", m)
			f.AddClaim(delta.Claim{Rule: catalog.MET003, Key: delta.Hash128{High: 1, Low: delta.HashString(text)}, Value: 1}, delta.ClaimFact{Last: b, KeyText: text, ValueText: "ms"})
		}
	}
	return d
}
