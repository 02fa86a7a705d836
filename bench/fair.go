// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/protobuf/encoding/protowire"

	"assay/internal/assaytest"
)

const (
	fairRounds   = 3
	fairSpan     = 6 * time.Second       // of each half of a round
	fairPause    = 50 * time.Millisecond // between requests of the quiet organization
	fairFlood    = 64                    // connections of the other organization, each with a request in flight
	fairBackoff  = 100 * time.Millisecond
	fairServices = 100             // in a request of the first flood
	fairRecords  = 40              // of each of them
	fairSettle   = 8 * time.Second // until traces are closed and all services are scored
)

// fairArgs shorten the delay of verdicts on traces.
var fairArgs = []string{"--trace-idle", "2s", "--score-interval", "500ms"}

// runFair measures the latency of one organization's requests while another attacks the
// server in several ways. It then compares the first organization's results with those on
// a server of its own.
func runFair(ctx context.Context, s *settings, emit func(*table) error) error {
	f := &fairLoad{client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: fairFlood + 8}}}
	defer f.client.CloseIdleConnections()
	var err error
	if f.quiet, err = quietRequests(); err != nil {
		return err
	}
	want, err := f.alone(ctx, s)
	if err != nil {
		return err
	}
	t := &table{
		Title:   fmt.Sprintf("OTLP requests of one organization, %.0f a second, while another attacks the server", 1/fairPause.Seconds()),
		Columns: []string{"p99 ms before", "p50 ms during", "p99 ms during", "times", "not 200", "taken/s", "refused/s"},
	}
	got, worst, unserved, err := f.attacked(ctx, s, t)
	if err != nil {
		return err
	}
	same := 0.0
	if got == want {
		same = 1
	} else {
		fmt.Fprintf(s.log, "alone:\n%s\nattacked:\n%s\n", want, got)
	}
	t.Notes = []string{
		fmt.Sprintf("%d rounds of %s each way, by turns; times is the median of the rounds' ratios", fairRounds, fairSpan),
		"the senders share the processors with the server",
	}
	t.Targets = []target{
		atMost("p99 during an attack, times that before it,", 2, worst),
		atMost("requests of the quiet organization that were not answered 200,", 0, unserved),
		atLeast("scores, failing rules and evidence are those of a server of its own (1: yes),", 1, same),
	}
	return emit(t)
}

// alone returns the results of the quiet organization on a server of its own.
func (f *fairLoad) alone(ctx context.Context, s *settings) (seen string, err error) {
	err = f.with(ctx, s, func(srv *server, _ string) error {
		if _, err := f.steady(ctx, srv.key, 2*fairSpan); err != nil {
			return err
		}
		seen, err = f.see(ctx, srv)
		return err
	})
	return seen, err
}

// attacked runs all attacks and returns the results of the quiet organization afterwards.
func (f *fairLoad) attacked(ctx context.Context, s *settings, t *table) (seen string, worst, unserved float64, err error) {
	all, err := attacks()
	if err != nil {
		return "", 0, 0, err
	}
	err = f.with(ctx, s, func(srv *server, greedy string) error {
		for _, a := range all {
			if !s.attacks.MatchString(a.name) {
				continue
			}
			fmt.Fprintln(s.log, a.name)
			r, ratio, err := f.attackedBy(ctx, srv, greedy, &a)
			if err != nil {
				return srv.Explain(fmt.Errorf("%s: %w", a.name, err))
			}
			t.Rows = append(t.Rows, r)
			worst = max(worst, ratio)
			unserved += float64(f.unserved.Load())
		}
		seen, err = f.see(ctx, srv)
		return err
	})
	return seen, worst, unserved, err
}

// with runs do with a new server of two organizations.
func (f *fairLoad) with(ctx context.Context, s *settings, do func(srv *server, greedy string) error) (err error) {
	srv, err := startAssay(ctx, s.assay, fairArgs...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	greedy, err := secondOrganization(ctx, srv)
	if err != nil {
		return err
	}
	f.srv = srv
	return do(srv, greedy)
}

// attackedBy measures one attack.
func (f *fairLoad) attackedBy(ctx context.Context, srv *server, greedy string, a *attack) (r row, ratio float64, err error) {
	var before, beside answers
	var ratios []float64
	f.taken.Store(0)
	f.refused.Store(0)
	f.unserved.Store(0)
	for range fairRounds {
		calm, err := f.steady(ctx, srv.key, fairSpan)
		if err != nil {
			return row{}, 0, fmt.Errorf("before the attack: %w", err)
		}
		attacking, stop := context.WithCancel(ctx)
		var others sync.WaitGroup
		for range a.connections {
			others.Go(func() { a.run(attacking, f, greedy) })
		}
		during, err := f.steady(ctx, srv.key, fairSpan)
		stop()
		others.Wait()
		if err != nil {
			return row{}, 0, err
		}
		ratios = append(ratios, quantile(during.times, 0.99)/quantile(calm.times, 0.99))
		before.add(calm)
		beside.add(during)
	}
	if failed := f.failed.Load(); failed > 0 {
		return row{}, 0, fmt.Errorf("%d requests of the attack could not be made", failed)
	}
	ratio = median(ratios)
	return row{a.name, []value{
		value(quantile(before.times, 0.99)), value(quantile(beside.times, 0.5)), value(quantile(beside.times, 0.99)), value(ratio), value(float64(f.unserved.Load())),
		value(float64(f.taken.Load()) / beside.span.Seconds()), value(float64(f.refused.Load()) / beside.span.Seconds()),
	}}, ratio, nil
}

// see returns the results of an organization that do not depend on the number of its
// requests.
func (f *fairLoad) see(ctx context.Context, srv *server) (string, error) {
	if err := sleep(ctx, fairSettle); err != nil {
		return "", err
	}
	services, err := assaytest.List[scoredService](ctx, f.client, srv.REST, srv.key, "/v1/services")
	if err != nil {
		return "", err
	}
	insights, err := assaytest.List[seenInsight](ctx, f.client, srv.REST, srv.key, "/v1/insights")
	if err != nil {
		return "", err
	}
	return results(services, insights)
}

// scoredService is a service of the REST API.
type scoredService struct {
	Name  string
	Score *struct {
		Score     int      `json:"score"`
		Evaluated []string `json:"evaluated_rule_ids"`
	} `json:"instrumentation_score"`
}

// seenInsight is an insight of the REST API.
type seenInsight struct {
	Service string `json:"service_name"`
	Status  string
	Type    struct {
		Name string
		Rule string `json:"instrumentation_score_rule_id"`
	} `json:"insight_type"`
	Attributes map[string]any
}

// results returns the scores of services, and their insights without counts. A service
// without a score and an insight without a type are errors.
func results(services []scoredService, insights []seenInsight) (string, error) {
	var lines []string
	for _, s := range services {
		if s.Score == nil || len(s.Score.Evaluated) == 0 {
			return "", fmt.Errorf("service %q has no score", s.Name)
		}
		lines = append(lines, fmt.Sprintf("service %s %d %v", s.Name, s.Score.Score, s.Score.Evaluated))
	}
	for _, i := range insights {
		if i.Service == "" || i.Type.Name == "" || len(i.Attributes) == 0 {
			return "", fmt.Errorf("insight %q of service %q has no type or no attributes", i.Type.Name, i.Service)
		}
		for _, name := range []string{"observations_total", "violations_total"} {
			delete(i.Attributes, name)
		}
		lines = append(lines, fmt.Sprintf("insight %s %s %s %s %v", i.Service, i.Type.Name, i.Type.Rule, i.Status, i.Attributes))
	}
	if len(services) == 0 || len(insights) == 0 {
		return "", fmt.Errorf("%d services and %d insights", len(services), len(insights))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// secondOrganization makes an organization beside a running server and returns its key.
func secondOrganization(ctx context.Context, srv *server) (string, error) {
	if _, err := srv.Command(ctx, "organization", "create", "greedy"); err != nil {
		return "", err
	}
	return srv.Command(ctx, "key", "create", "--organization", "greedy", "--name", "flood")
}

// logsRequest returns an encoded request with log records of some services.
func logsRequest(services, records int) ([]byte, error) {
	return logsOf(services, func(int, int) time.Time { return time.Now() }, records)
}

// logsOf returns a request with log records of some services. at returns the time for a
// service and a record.
func logsOf(services int, at func(service, record int) time.Time, records int) ([]byte, error) {
	logs := plog.NewLogs()
	for i := range services {
		r := logs.ResourceLogs().AppendEmpty()
		r.Resource().Attributes().PutStr("service.name", fmt.Sprintf("service-%d", i))
		r.Resource().Attributes().PutStr("service.version", "1.2.3")
		list := r.ScopeLogs().AppendEmpty().LogRecords()
		for j := range records {
			record := list.AppendEmpty()
			record.SetTimestamp(pcommon.NewTimestampFromTime(at(i, j)))
			record.SetSeverityNumber(plog.SeverityNumberInfo)
			record.Body().SetStr(fmt.Sprintf("order %d took %d ms", 1000*i+j, j))
			record.Attributes().PutStr("http.route", "/orders/{id}")
		}
	}
	return plogotlp.NewExportRequestFromLogs(logs).MarshalProto()
}

// quiet is one request of the attacked organization.
type quiet struct {
	path string
	body []byte
}

// quietRequests are requests of all signals, some with failures.
func quietRequests() ([]quiet, error) {
	logs, err := logsRequest(2, 20)
	if err != nil {
		return nil, err
	}
	metrics, err := wideMetrics(1, 10, 2)
	if err != nil {
		return nil, err
	}
	scoped, err := scopedSpans(1, 10)
	if err != nil {
		return nil, err
	}
	wide, err := wideTrace(2, 12)
	if err != nil {
		return nil, err
	}
	return []quiet{{"/v1/logs", logs}, {"/v1/metrics", metrics}, {"/v1/traces", scoped}, {"/v1/traces", wide}}, nil
}

// fairLoad sends for two organizations. It is safe for concurrent use.
type fairLoad struct {
	client *http.Client
	srv    *server
	quiet  []quiet
	serial atomic.Uint64 // makes each request unique

	taken, refused, failed atomic.Int64 // of the attack
	unserved               atomic.Int64 // of the quiet organization: status other than 200
}

// steady sends small requests at even intervals, each from a goroutine of its own, so
// that a slow request does not delay the next one.
func (f *fairLoad) steady(ctx context.Context, key string, span time.Duration) (answers, error) {
	var mu sync.Mutex
	var all answers
	var sent sync.WaitGroup
	ticker := time.NewTicker(fairPause)
	defer ticker.Stop()
	began := time.Now()
	for i := 0; time.Since(began) < span; i++ {
		select {
		case <-ctx.Done():
			sent.Wait()
			return answers{}, context.Cause(ctx)
		case <-ticker.C:
		}
		q := f.quiet[i%len(f.quiet)]
		sent.Go(func() {
			at := time.Now()
			status, err := f.send(ctx, key, q.path, "", f.unique(q.body))
			mu.Lock()
			defer mu.Unlock()
			all.times = append(all.times, float64(time.Since(at))/float64(time.Millisecond))
			if err != nil || status != http.StatusOK {
				f.unserved.Add(1)
			}
		})
	}
	sent.Wait()
	all.span = time.Since(began)
	return all, nil
}

// flood sends large requests one after the other until ctx ends.
func (f *fairLoad) flood(ctx context.Context, key, path string, compressed []byte) {
	for ctx.Err() == nil {
		// An additional member of the gzip stream makes the request unique.
		rest, err := zipped(f.unique(nil))
		if err != nil {
			f.failed.Add(1)
			return
		}
		f.attack(ctx, key, path, "gzip", append(slices.Clip(compressed), rest...))
	}
}

// unique appends an unknown field with a unique value.
func (f *fairLoad) unique(body []byte) []byte {
	b := protowire.AppendTag(slices.Clip(body), 1000, protowire.VarintType)
	return protowire.AppendVarint(b, f.serial.Add(1))
}

func (f *fairLoad) send(ctx context.Context, key, path, encoding string, body []byte) (status int, err error) {
	headers := []string{"Content-Type", "application/x-protobuf"}
	if encoding != "" {
		headers = append(headers, "Content-Encoding", encoding)
	}
	r, err := assaytest.Do(ctx, f.client, http.MethodPost, f.srv.OTLPHTTP+path, key, body, headers...)
	if err != nil {
		return 0, err
	}
	return r.Status, nil
}

func zipped(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
