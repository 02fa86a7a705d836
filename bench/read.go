// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"assay"
	"assay/internal/assaytest"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/score"
	"assay/internal/store/sqlite"
	"assay/internal/wire"
)

// Contents of the store of the read bench.
const (
	storedServices = 2000
	storedHours    = 24
	storedMetrics  = 12 // metric names of a service, with two attributes each
	storedSpans    = 30 // span names of a service and hour
	perCommit      = 100
)

const (
	idleTime      = 5 * time.Second // before memory is measured
	readRequests  = 1000            // of each kind
	readWarmUp    = 100
	memoryTarget  = 300 // MiB
	latencyTarget = 10  // ms
)

// reads are the timed requests. Only requests with a target count.
var reads = []struct {
	path   string
	total  int // minimum number of items
	items  int // on the page
	target bool
}{
	{"/v1/services?limit=100", storedServices, 100, true},
	{"/v1/services?limit=100&offset=1900", storedServices, 100, false},
	{"/v1/insights", storedServices, 20, true},
	{"/v1/insights?limit=100&sort=-impact&status=active", storedServices, 100, false},
	{"/v1/organization", 0, 0, false},
}

// runRead starts a server on a store of many services. It measures its memory and its
// latency.
func runRead(ctx context.Context, s *settings, emit func(*table) error) (err error) {
	srv, filled, err := startFilled(ctx, s.assay, fill, "--score-interval", "1s")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	// One request makes the server load the data of its quotas.
	if err := sendOne(ctx, s, srv); err != nil {
		return srv.Explain(err)
	}
	if err := sleep(ctx, idleTime); err != nil {
		return err
	}
	idle, most, err := srv.Memory()
	if err != nil {
		return srv.Explain(err)
	}

	t := &table{
		Title:   fmt.Sprintf("REST over loopback, one client, %s requests of each kind", thousands(readRequests)),
		Columns: []string{"p50 ms", "p99 ms", "max ms", "KB"},
	}
	for _, r := range reads {
		times, size, err := timeReads(ctx, srv, r.path, r.total, r.items)
		if err != nil {
			return srv.Explain(err)
		}
		p99 := quantile(times, 0.99)
		t.Rows = append(t.Rows, row{r.path, []value{
			value(quantile(times, 0.5)), value(p99), value(quantile(times, 1)), value(float64(size) / 1e3),
		}})
		if r.target {
			t.Targets = append(t.Targets, atMost("p99 in ms of GET "+r.path, latencyTarget, p99))
		}
	}
	busy, _, err := srv.Memory()
	if err != nil {
		return srv.Explain(err)
	}
	file, err := os.Stat(filepath.Join(srv.Dir, "assay.db"))
	if err != nil {
		return err
	}
	const mib = 1 << 20
	memory := &table{
		Title:   fmt.Sprintf("memory of a server that keeps %s services with %d hours each", thousands(storedServices), storedHours),
		Columns: []string{"MiB"},
		Rows: []row{
			{"resident, idle " + idleTime.String() + " after its start", []value{value(float64(idle) / mib)}},
			{"the most until then", []value{value(float64(most) / mib)}},
			{"resident after the reads", []value{value(float64(busy) / mib)}},
			{"store on disk", []value{value(float64(file.Size()) / mib)}},
		},
		Notes:   []string{fmt.Sprintf("filling and scoring the store took %.0f s", filled.Seconds())},
		Targets: []target{atMost("MiB of the idle server", memoryTarget, float64(idle)/mib)},
	}
	return errors.Join(emit(memory), emit(t))
}

// fill stores services with a day of facts and scores them.
func fill(ctx context.Context, path string) (err error) {
	store, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	organizations, err := store.OrganizationIDs(ctx)
	if err != nil {
		return err
	}
	if len(organizations) != 1 {
		return fmt.Errorf("%d organizations, not one", len(organizations))
	}
	now := time.Now().UTC()
	for from := 0; from < storedServices; from += perCommit {
		d := new(delta.Delta)
		o := d.Organization(organizations[0])
		for i := range perCommit {
			storeService(o, from+i, now)
		}
		if err := store.Commit(ctx, now, nil, func([]bool) *delta.Delta { return d }); err != nil {
			return err
		}
	}
	return score.New(score.Config{Store: store}).Round(ctx)
}

// storeService stores a day of facts of one service: every rule observes something every
// hour, and a fifth of the rules fails with full evidence.
func storeService(o *delta.Organization, i int, now time.Time) {
	key := assay.ServiceKey{
		Namespace: fmt.Sprintf("team-%d", i%40), Name: fmt.Sprintf("service-%04d", i/2),
		Environment: []string{"production", "staging"}[i%2], Version: fmt.Sprintf("1.%d.0", i%7),
	}
	s := o.Service(key)
	name := func(format string, args ...any) uint64 { return delta.HashString(fmt.Sprintf(format, args...)) }
	for h := range storedHours {
		at := now.Add(-time.Duration(h) * time.Hour)
		nanos := uint64(at.UnixNano())
		bucket := delta.BucketOf(nanos, assay.DefaultWindowStep)
		hour := at.Truncate(time.Hour).Unix()
		s.Seen(nanos)
		for signal := range delta.SignalCount {
			s.AddUsage(bucket, signal, delta.Usage{Items: 10_000, Bytes: 3 << 20})
		}
		counts := s.Counts(bucket)
		for r := range catalog.QuotaExceeded {
			c := delta.Count{Observed: 10_000}
			if (i+int(r))%5 == 0 {
				c.Failed = uint64(1 + i%100)
			}
			counts[r].Add(c)
		}
		spans := s.DistinctSet(delta.DistinctKey{Rule: catalog.SPA003, Hour: hour}, bucket, 1001, "", "")
		for n := range storedSpans {
			spans.Add(name("GET /things/%d", n))
		}
		for m := range storedMetrics {
			metric := fmt.Sprintf("requests.of.kind.%d", m)
			s.AddClaim(delta.Claim{Rule: catalog.MET003, Key: delta.Hash128{High: 1, Low: delta.HashString(metric)}, Value: delta.HashString("{request}")},
				delta.ClaimFact{Last: bucket, KeyText: metric, ValueText: "{request}"})
			for _, attribute := range []string{"http.route", "http.response.status_code"} {
				k := delta.Mix(delta.HashString(metric), delta.HashString(attribute))
				values := s.DistinctSet(delta.DistinctKey{Rule: catalog.MET001, Hour: hour, Key: k}, bucket, 10_000, metric, attribute)
				for v := range 10 {
					values.Add(name("%d", v))
				}
			}
		}
		s.AddClaim(delta.Claim{Rule: catalog.RES002, Key: delta.Hash128{High: 1, Low: delta.Mix(name("instance %d", i), uint64(hour))}, Value: name("pod %d", i)},
			delta.ClaimFact{Last: bucket})
	}
	for r := range catalog.QuotaExceeded {
		if (i+int(r))%5 != 0 {
			continue
		}
		s.AddExample(r, &delta.Example{
			TimeUnixNano: uint64(now.UnixNano()), Signal: delta.Traces, TraceID: [16]byte{1, byte(i >> 8), byte(i)},
			ResourceAttributes: fmt.Sprintf(`{"service.name":%q,"service.version":%q,"k8s.pod.name":"pod-%d","telemetry.sdk.language":"go"}`, key.Name, key.Version, i),
		})
		for n := range 5 {
			s.AddItem(delta.Item{Rule: r, List: delta.AttributeKeys, Text: fmt.Sprintf("some.attribute.%d", n)}, delta.BucketOf(uint64(now.UnixNano()), assay.DefaultWindowStep))
		}
	}
}

// sendOne sends one request of the recordings.
func sendOne(ctx context.Context, s *settings, srv *server) error {
	recordings, err := readRecordings(s.recordings)
	if err != nil {
		return err
	}
	w, err := newWorkload(recordings, wire.Traces, shape{}, 1)
	if err != nil {
		return err
	}
	w.renew(time.Since(start))
	to, err := dialHTTP(srv)
	if err != nil {
		return err
	}
	defer to.close()
	return to.send(ctx, w.requests[0].body)
}

// timeReads returns the time in milliseconds until the last byte of each response, and
// the size of one response.
func timeReads(ctx context.Context, srv *server, path string, total, items int) (ms []float64, size int, err error) {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	url := srv.REST + path
	var body []byte
	for i := range readWarmUp + readRequests {
		began := time.Now()
		r, err := assaytest.Get(ctx, client, url, srv.key)
		if err != nil {
			return nil, 0, err
		}
		body = r.Body
		if i >= readWarmUp {
			ms = append(ms, float64(time.Since(began).Microseconds())/1e3)
		}
	}
	if items > 0 { // else it is no list
		if err := checkPage(body, items, total); err != nil {
			return nil, 0, fmt.Errorf("GET %s: %w", path, err)
		}
	}
	return ms, len(body), nil
}
