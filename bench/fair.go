// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
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
)

const (
	fairRounds   = 4
	fairSpan     = 12 * time.Second      // of each half of a round
	fairPause    = 50 * time.Millisecond // between the quiet organization's requests
	fairFlood    = 64                    // connections of the other, each with a request under way all the time
	fairBackoff  = 100 * time.Millisecond
	fairServices = 100 // in a request of the flood
	fairRecords  = 40  // of each of them
)

// runFair measures how long the requests of one organization take while another
// sends as much as it can, which is more than the server takes.
func runFair(ctx context.Context, s *settings, emit func(*table) error) (err error) {
	dir, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	srv, err := startAssay(ctx, s.assay, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	greedy, err := secondOrganization(ctx, s.assay, dir)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: fairFlood + 8}}
	defer client.CloseIdleConnections()
	f := &fairLoad{client: client, url: "http://" + srv.http + "/v1/logs"}
	if f.large, err = logsRequest(fairServices, fairRecords); err != nil {
		return err
	}
	if f.small, err = logsRequest(1, 20); err != nil {
		return err
	}
	var alone, beside answers
	var ratio []float64
	for range fairRounds {
		calm, err := f.steady(ctx, srv.key)
		if err != nil {
			return srv.explain(err)
		}
		flooding, stop := context.WithCancel(ctx)
		var flood sync.WaitGroup
		for range fairFlood {
			flood.Go(func() { f.flood(flooding, greedy) })
		}
		during, err := f.steady(ctx, srv.key)
		stop()
		flood.Wait()
		if err != nil {
			return srv.explain(err)
		}
		ratio = append(ratio, quantile(during.times, 0.99)/quantile(calm.times, 0.99))
		alone.add(calm)
		beside.add(during)
	}
	if f.taken.Load() == 0 || f.failed.Load() > 0 {
		return fmt.Errorf("of the flood %d requests were taken, and %d failed", f.taken.Load(), f.failed.Load())
	}
	flooded := float64(f.taken.Load()) * fairServices * fairRecords / beside.span.Seconds()
	return emit(&table{
		Title:   fmt.Sprintf("OTLP requests of one organization, %.0f a second, while another sends over %d connections", 1/fairPause.Seconds(), fairFlood),
		Columns: []string{"requests/s", "p50 ms", "p99 ms"},
		Rows: []row{
			{"the other sends nothing", alone.values()},
			{"the other floods", beside.values()},
		},
		Notes: []string{
			fmt.Sprintf("%d rounds of %s each way, by turns; the flood: gzip, %d services and %s log records a request, %s records/s taken, %s requests refused",
				fairRounds, fairSpan, fairServices, thousands(fairServices*fairRecords), thousands(int64(flooded)), thousands(f.refused.Load())),
			"the sender of the flood shares the processors with the server",
		},
		Targets: []target{atMost("p99 during the flood, times that without,", 2, median(ratio))},
	})
}

// secondOrganization makes an organization beside a running server and returns its key.
func secondOrganization(ctx context.Context, binary, dir string) (string, error) {
	var key []byte
	for _, args := range [][]string{
		{"organization", "create", "greedy"},
		{"key", "create", "--organization", "greedy", "--name", "flood"},
	} {
		var err error
		if key, err = exec.CommandContext(ctx, binary, append(args, "--data-dir", dir)...).Output(); err != nil {
			return "", fmt.Errorf("assay %s: %w", strings.Join(args, " "), err)
		}
	}
	return strings.TrimSpace(string(key)), nil
}

// logsRequest returns an encoded request with log records of some services.
func logsRequest(services, records int) ([]byte, error) {
	logs := plog.NewLogs()
	now := pcommon.NewTimestampFromTime(time.Now())
	for i := range services {
		resource := logs.ResourceLogs().AppendEmpty()
		resource.Resource().Attributes().PutStr("service.name", fmt.Sprintf("service-%d", i))
		resource.Resource().Attributes().PutStr("service.version", "1.2.3")
		list := resource.ScopeLogs().AppendEmpty().LogRecords()
		for j := range records {
			record := list.AppendEmpty()
			record.SetTimestamp(now)
			record.SetSeverityNumber(plog.SeverityNumberInfo)
			record.Body().SetStr(fmt.Sprintf("order %d has been packed in %d ms", 1000*i+j, j))
			record.Attributes().PutStr("http.route", "/orders/{id}")
		}
	}
	return plogotlp.NewExportRequestFromLogs(logs).MarshalProto()
}

// fairLoad sends for two organizations. It may be used concurrently.
type fairLoad struct {
	client       *http.Client
	url          string
	large, small []byte
	serial       atomic.Uint64 // makes each request another one

	taken, refused, failed atomic.Int64 // of the flood
}

// steady sends small requests at even intervals, each with a goroutine of its own:
// one that takes long does not keep the next one back.
func (f *fairLoad) steady(ctx context.Context, key string) (answers, error) {
	var mu sync.Mutex
	var all answers
	var errs []error
	var sent sync.WaitGroup
	ticker := time.NewTicker(fairPause)
	defer ticker.Stop()
	began := time.Now()
	for time.Since(began) < fairSpan {
		select {
		case <-ctx.Done():
			sent.Wait()
			return answers{}, context.Cause(ctx)
		case <-ticker.C:
		}
		sent.Go(func() {
			at := time.Now()
			status, err := f.send(ctx, key, "", f.unique(f.small))
			mu.Lock()
			defer mu.Unlock()
			all.times = append(all.times, float64(time.Since(at))/float64(time.Millisecond))
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("a request of the quiet organization: status %d", status)
			}
			errs = append(errs, err)
		})
	}
	sent.Wait()
	all.span = time.Since(began)
	return all, errors.Join(errs...)
}

// flood sends one large request after the other until ctx ends.
func (f *fairLoad) flood(ctx context.Context, key string) {
	packed, err := zipped(f.large)
	if err != nil {
		f.failed.Add(1)
		return
	}
	for ctx.Err() == nil {
		// A second member of the stream makes the request another one.
		rest, err := zipped(f.unique(nil))
		if err != nil {
			f.failed.Add(1)
			return
		}
		status, err := f.send(ctx, key, "gzip", append(slices.Clip(packed), rest...))
		switch {
		case ctx.Err() != nil:
		case err != nil:
			f.failed.Add(1)
		case status == http.StatusOK:
			f.taken.Add(1)
		case status == http.StatusServiceUnavailable:
			f.refused.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(fairBackoff):
			}
		default:
			f.failed.Add(1)
		}
	}
}

// unique appends a field that no receiver knows and that no other request has.
func (f *fairLoad) unique(body []byte) []byte {
	b := protowire.AppendTag(slices.Clip(body), 1000, protowire.VarintType)
	return protowire.AppendVarint(b, f.serial.Add(1))
}

func (f *fairLoad) send(ctx context.Context, key, encoding string, body []byte) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/x-protobuf")
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
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
