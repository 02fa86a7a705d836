// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// attack is what the holder of one ingest key does to the others, over several
// connections at a time.
type attack struct {
	name        string
	connections int
	run         func(ctx context.Context, f *fairLoad, key string)
}

// attacks are the floods of the fair bench.
func attacks() ([]attack, error) {
	var all []attack
	var failures []error
	post := func(name, path string, body []byte, err error) {
		failures = append(failures, err)
		packed, err := zipped(body)
		failures = append(failures, err)
		all = append(all, attack{name, fairFlood, func(ctx context.Context, f *fairLoad, key string) { f.flood(ctx, key, path, packed) }})
	}
	logs, err := logsRequest(fairServices, fairRecords)
	post(fmt.Sprintf("%d services, %s log records a request", fairServices, thousands(fairServices*fairRecords)), "/v1/logs", logs, err)
	body, err := wideTrace(9000, 8)
	post("one trace of 9,000 services, each with orphans", "/v1/traces", body, err)
	body, err = scopedSpans(2000, 2000)
	post("2,000 secrets in a scope of 2,000 spans", "/v1/traces", body, err)
	body, err = spreadLogs(100, 700)
	post("100 services, each in 700 hours", "/v1/logs", body, err)
	body, err = wideMetrics(5, 1900, 9)
	post("5 services with 1,900 metrics of 9 attributes", "/v1/metrics", body, err)
	body, err = wideLogs(5000)
	post("5,000 services in a request", "/v1/logs", body, err)
	all = append(all,
		attack{"traces without end", fairFlood, func(ctx context.Context, f *fairLoad, key string) { f.newTraces(ctx, key) }},
		attack{"bodies of 16 MiB that never end", 500, func(ctx context.Context, f *fairLoad, key string) { f.slowBody(ctx, key) }},
		attack{"requests with a key that does not exist", fairFlood, func(ctx context.Context, f *fairLoad, _ string) {
			f.flood(ctx, strings.Replace(bootstrapKey, "Bench0", "Bench1", 1), "/v1/logs", nil)
		}},
		attack{"headers that never end, on the REST listener", 2000, func(ctx context.Context, f *fairLoad, _ string) { f.slowHeader(ctx) }},
	)
	return all, errors.Join(failures...)
}

// resource puts a service into resource attributes.
func resource(r pcommon.Resource, name string) {
	r.Attributes().PutStr("service.name", name)
	r.Attributes().PutStr("service.version", "1.2.3")
	r.Attributes().PutStr("service.instance.id", "i")
}

// wideTrace returns one trace with some spans of each of many services, all of them
// internal and orphans.
func wideTrace(services, spans int) ([]byte, error) {
	traces := ptrace.NewTraces()
	now := pcommon.NewTimestampFromTime(time.Now())
	for i := range services {
		rs := traces.ResourceSpans().AppendEmpty()
		resource(rs.Resource(), fmt.Sprint("wide-", i))
		list := rs.ScopeSpans().AppendEmpty().Spans()
		for j := range spans {
			s := list.AppendEmpty()
			s.SetTraceID([16]byte{1})
			s.SetSpanID(id8(i*spans + j + 1))
			s.SetParentSpanID(id8(1<<40 + i))
			s.SetKind(ptrace.SpanKindInternal)
			s.SetName(fmt.Sprint("operation ", j))
			s.SetStartTimestamp(now)
			s.SetEndTimestamp(now)
		}
	}
	return ptraceotlp.NewExportRequestFromTraces(traces).MarshalProto()
}

func id8(n int) (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// scopedSpans returns spans of one scope that has many secrets.
func scopedSpans(secrets, spans int) ([]byte, error) {
	traces := ptrace.NewTraces()
	now := pcommon.NewTimestampFromTime(time.Now())
	rs := traces.ResourceSpans().AppendEmpty()
	resource(rs.Resource(), "scoped")
	ss := rs.ScopeSpans().AppendEmpty()
	for i := range secrets {
		ss.Scope().Attributes().PutStr(fmt.Sprintf("password%d", i), "hunter2hunter2")
	}
	for i := range spans {
		s := ss.Spans().AppendEmpty()
		s.SetTraceID([16]byte{2, byte(i >> 8), byte(i)})
		s.SetSpanID(id8(i + 1))
		s.SetName("operation")
		s.SetStartTimestamp(now)
		s.SetEndTimestamp(now)
	}
	return ptraceotlp.NewExportRequestFromTraces(traces).MarshalProto()
}

// spreadLogs returns a log record of each service for each hour before now.
func spreadLogs(services, hours int) ([]byte, error) {
	return logsOf(services, func(i, j int) time.Time { return time.Now().Add(-time.Duration(j) * time.Hour) }, hours)
}

// wideLogs returns a log record of each service.
func wideLogs(services int) ([]byte, error) {
	return logsOf(services, func(int, int) time.Time { return time.Now() }, 1)
}

// wideMetrics returns a data point of each metric, with attributes.
func wideMetrics(services, metrics, attributes int) ([]byte, error) {
	all := pmetric.NewMetrics()
	now := pcommon.NewTimestampFromTime(time.Now())
	for i := range services {
		rm := all.ResourceMetrics().AppendEmpty()
		resource(rm.Resource(), fmt.Sprint("metrics-", i))
		list := rm.ScopeMetrics().AppendEmpty().Metrics()
		for j := range metrics {
			m := list.AppendEmpty()
			m.SetName(fmt.Sprint("metric.", j))
			m.SetUnit("s")
			p := m.SetEmptyGauge().DataPoints().AppendEmpty()
			p.SetTimestamp(now)
			p.SetDoubleValue(1)
			for k := range attributes {
				p.Attributes().PutInt(fmt.Sprint("attribute.", k), int64(j))
			}
		}
	}
	return pmetricotlp.NewExportRequestFromMetrics(all).MarshalProto()
}

// newTraces sends spans of traces that no other span belongs to.
func (f *fairLoad) newTraces(ctx context.Context, key string) {
	for ctx.Err() == nil {
		traces := ptrace.NewTraces()
		now := pcommon.NewTimestampFromTime(time.Now())
		rs := traces.ResourceSpans().AppendEmpty()
		resource(rs.Resource(), "endless")
		list := rs.ScopeSpans().AppendEmpty().Spans()
		first := f.serial.Add(5000)
		for i := range uint64(5000) {
			s := list.AppendEmpty()
			var id [16]byte
			binary.BigEndian.PutUint64(id[8:], first+i)
			binary.BigEndian.PutUint64(id[:], (first+i)*0x9e3779b97f4a7c15)
			s.SetTraceID(id)
			s.SetSpanID(id8(1))
			s.SetName(fmt.Sprint("operation ", first+i))
			s.SetStartTimestamp(now)
			s.SetEndTimestamp(now)
		}
		body, err := ptraceotlp.NewExportRequestFromTraces(traces).MarshalProto()
		if err != nil {
			f.failed.Add(1)
			return
		}
		f.attack(ctx, key, "/v1/traces", "", body)
	}
}

// slowBody announces a large body and never sends it, again and again.
func (f *fairLoad) slowBody(ctx context.Context, key string) {
	f.trickle(ctx, f.otlp, "POST /v1/logs HTTP/1.1\r\nHost: assay\r\nAuthorization: Bearer "+key+
		"\r\nContent-Type: application/x-protobuf\r\nContent-Length: 16777216\r\n\r\n")
}

// slowHeader begins a request on the REST listener and never ends its header.
func (f *fairLoad) slowHeader(ctx context.Context) {
	f.trickle(ctx, f.rest, "GET /api/v1/services HTTP/1.1\r\nHost: assay\r\nX-Padding: "+strings.Repeat("x", 8<<10))
}

// trickle opens connections one after the other, sends the beginning of a request on
// each, and then a byte a second until the server closes it.
func (f *fairLoad) trickle(ctx context.Context, address, beginning string) {
	for ctx.Err() == nil {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			f.refused.Add(1)
			pause(ctx)
			continue
		}
		_, err = c.Write([]byte(beginning))
		for err == nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			_, err = c.Write([]byte{'x'})
		}
		_ = c.Close() // the server may have done so
		f.refused.Add(1)
		pause(ctx)
	}
}

// pause waits a moment before the next try.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(fairBackoff):
	}
}

// attack sends one request of a flood and counts how it ended.
func (f *fairLoad) attack(ctx context.Context, key, path, encoding string, body []byte) {
	status, err := f.send(ctx, key, path, encoding, body)
	switch {
	case ctx.Err() != nil:
	case err == nil && status == http.StatusOK:
		f.taken.Add(1)
	default: // the server may end the connection, too
		f.refused.Add(1)
		pause(ctx)
	}
}
