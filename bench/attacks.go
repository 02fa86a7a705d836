// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
)

// attack is one kind of flood that the holder of a key sends, over several
// connections.
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
		compressed, err := zipped(body)
		failures = append(failures, err)
		all = append(all, attack{name, fairFlood, func(ctx context.Context, f *fairLoad, key string) { f.flood(ctx, key, path, compressed) }})
	}
	logs, err := logsRequest(fairServices, fairRecords)
	post(fmt.Sprintf("%d services, %s log records a request", fairServices, thousands(fairServices*fairRecords)), "/v1/logs", logs, err)
	body, err := wideTrace(9000, 8)
	post("one trace of 9,000 services, each with orphans", "/v1/traces", body, err)
	body, err = scopedSpans(2000, 2000)
	post("2,000 secrets in a scope of 2,000 spans", "/v1/traces", body, err)
	body, err = spreadLogs(60, 34) // as many as a part of a request may have
	post("60 services, each in 34 hours", "/v1/logs", body, err)
	body, err = wideMetrics(5, 1900, 9)
	post("5 services with 1,900 metrics of 9 attributes", "/v1/metrics", body, err)
	body, err = wideLogs(5000)
	post("5,000 services in a request", "/v1/logs", body, err)
	body, err = heavyTrace(1000)
	post("one trace whose spans have 1,000 resources of 8 KB in turn", "/v1/traces", body, err)
	leaks, err := leakingLogs(100)
	failures = append(failures, err)
	all = append(all,
		attack{"pages of 100 insights, without waiting", fairFlood, func(ctx context.Context, f *fairLoad, key string) { f.pages(ctx, key, leaks) }},
		attack{"traces without end", fairFlood, func(ctx context.Context, f *fairLoad, key string) { f.newTraces(ctx, key) }},
		attack{"bodies of 16 MiB that never end", 500, func(ctx context.Context, f *fairLoad, key string) { f.slowBody(ctx, key) }},
		attack{"requests with a key that does not exist", fairFlood, func(ctx context.Context, f *fairLoad, _ string) {
			f.flood(ctx, strings.Replace(bootstrapKey, "0_", "1_", 1), "/v1/logs", nil)
		}},
		attack{"calls over gRPC without a credential, and without waiting", 50, func(ctx context.Context, f *fairLoad, _ string) { f.calls(ctx, "") }},
		attack{"calls over gRPC without waiting", 50, func(ctx context.Context, f *fairLoad, key string) { f.calls(ctx, key) }},
		attack{"requests over HTTP without a credential, and without waiting", fairFlood, func(ctx context.Context, f *fairLoad, _ string) { f.pipeline(ctx, f.srv.OTLPHTTP) }},
		attack{"requests on the REST listener without a credential, and without waiting", fairFlood, func(ctx context.Context, f *fairLoad, _ string) {
			f.pipeline(ctx, f.srv.Root)
		}},
		attack{"bodies of chunks with one byte each", fairFlood, func(ctx context.Context, f *fairLoad, key string) { f.chunks(ctx, key) }},
		attack{"new connections to the REST listener, each with 20 requests without a credential", fairFlood, func(ctx context.Context, f *fairLoad, _ string) {
			f.connect(ctx)
		}},
		attack{"headers that never end, on the REST listener", 2000, func(ctx context.Context, f *fairLoad, _ string) { f.slowHeader(ctx) }},
	)
	return all, errors.Join(failures...)
}

// resource adds a service to resource attributes.
func resource(r pcommon.Resource, name string) {
	r.Attributes().PutStr("service.name", name)
	r.Attributes().PutStr("service.version", "1.2.3")
	r.Attributes().PutStr("service.instance.id", "i")
}

// wideTrace returns one trace with several spans of each of many services. All spans are
// internal and orphans.
func wideTrace(services, spans int) ([]byte, error) {
	traces := ptrace.NewTraces()
	for i := range services {
		rs := traces.ResourceSpans().AppendEmpty()
		resource(rs.Resource(), fmt.Sprint("wide-", i))
		list := rs.ScopeSpans().AppendEmpty().Spans()
		for j := range spans {
			s := addSpan(list, [16]byte{1}, i*spans+j+1, fmt.Sprint("operation ", j))
			s.SetParentSpanID(id8(1<<40 + i))
			s.SetKind(ptrace.SpanKindInternal)
		}
	}
	return ptraceotlp.NewExportRequestFromTraces(traces).MarshalProto()
}

// heavyTrace returns one trace with a span of each of many resources with long texts.
func heavyTrace(resources int) ([]byte, error) {
	traces := ptrace.NewTraces()
	for i := range resources {
		rs := traces.ResourceSpans().AppendEmpty()
		for _, key := range []string{"service.name", "service.namespace", "service.version", "deployment.environment.name"} {
			rs.Resource().Attributes().PutStr(key, strings.Repeat("heavy ", 170))
		}
		rs.Resource().Attributes().PutStr("service.instance.id", strconv.Itoa(i))
		for j := range 8 {
			rs.Resource().Attributes().PutStr(fmt.Sprint("heavy.", j), strings.Repeat("heavy ", 80))
		}
		addSpan(rs.ScopeSpans().AppendEmpty().Spans(), [16]byte{3}, i+1, "operation")
	}
	return ptraceotlp.NewExportRequestFromTraces(traces).MarshalProto()
}

// addSpan adds a span that is now.
func addSpan(to ptrace.SpanSlice, trace pcommon.TraceID, id int, name string) ptrace.Span {
	s, now := to.AppendEmpty(), pcommon.NewTimestampFromTime(time.Now())
	s.SetTraceID(trace)
	s.SetSpanID(id8(id))
	s.SetName(name)
	s.SetStartTimestamp(now)
	s.SetEndTimestamp(now)
	return s
}

func id8(n int) (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// scopedSpans returns spans of one scope with many secrets.
func scopedSpans(secrets, spans int) ([]byte, error) {
	traces := ptrace.NewTraces()
	rs := traces.ResourceSpans().AppendEmpty()
	resource(rs.Resource(), "scoped")
	ss := rs.ScopeSpans().AppendEmpty()
	for i := range secrets {
		ss.Scope().Attributes().PutStr(fmt.Sprintf("password%d", i), "hunter2hunter2")
	}
	for i := range spans {
		addSpan(ss.Spans(), [16]byte{2, byte(i >> 8), byte(i)}, i+1, "operation")
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

// leakingLogs returns a log record of each service that contains several kinds of sensitive data.
func leakingLogs(services int) ([]byte, error) {
	logs := plog.NewLogs()
	for i := range services {
		r := logs.ResourceLogs().AppendEmpty()
		resource(r.Resource(), fmt.Sprint("leaking-", i))
		record := r.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
		record.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
		record.Body().SetStr("login failed, password=hunter2hunter2")
		record.Attributes().PutStr("user.email", "ada@shop.example.org")
	}
	return plogotlp.NewExportRequestFromLogs(logs).MarshalProto()
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

// newTraces sends spans, each in a trace of its own. It encodes them by hand: the
// attacker shares the processors with the server, and pdata would use more processor time
// than the server.
func (f *fairLoad) newTraces(ctx context.Context, key string) {
	const spans = 5000
	empty := ptrace.NewTraces()
	rs := empty.ResourceSpans().AppendEmpty()
	resource(rs.Resource(), "endless")
	request, err := ptraceotlp.NewExportRequestFromTraces(empty).MarshalProto()
	if err != nil {
		f.failed.Add(1)
		return
	}
	entry, n := protowire.ConsumeBytes(request[1:]) // after the tag of its only ResourceSpans
	if n < 0 {
		f.failed.Add(1)
		return
	}
	var list, span []byte
	for ctx.Err() == nil {
		list = list[:0]
		now := uint64(time.Now().UnixNano())
		last := f.serial.Add(spans)
		for n := last - spans + 1; n <= last; n++ {
			span = protowire.AppendTag(span[:0], 1, protowire.BytesType)
			span = protowire.AppendVarint(span, 16)
			span = binary.BigEndian.AppendUint64(span, n*0x9e3779b97f4a7c15)
			span = binary.BigEndian.AppendUint64(span, n)
			span = protowire.AppendTag(span, 2, protowire.BytesType)
			span = protowire.AppendBytes(span, []byte("endless!"))
			span = protowire.AppendTag(span, 5, protowire.BytesType)
			span = protowire.AppendBytes(span, strconv.AppendUint([]byte("operation "), n, 10))
			span = protowire.AppendTag(span, 7, protowire.Fixed64Type)
			span = protowire.AppendFixed64(span, now)
			span = protowire.AppendTag(span, 8, protowire.Fixed64Type)
			span = protowire.AppendFixed64(span, now)
			list = protowire.AppendTag(list, 2, protowire.BytesType)
			list = protowire.AppendBytes(list, span)
		}
		scope := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), list)
		body := protowire.AppendTag(nil, 1, protowire.BytesType)
		body = protowire.AppendBytes(body, slices.Concat(entry, scope))
		f.attack(ctx, key, "/v1/traces", "", body)
	}
}

// slowBody repeatedly announces a large body that it never sends.
func (f *fairLoad) slowBody(ctx context.Context, key string) {
	f.trickle(ctx, f.srv.OTLPHTTP, "POST /v1/logs HTTP/1.1\r\nHost: assay\r\nAuthorization: Bearer "+key+
		"\r\nContent-Type: application/x-protobuf\r\nContent-Length: 16777216\r\n\r\n")
}

// slowHeader starts a request on the REST listener and never ends its header.
func (f *fairLoad) slowHeader(ctx context.Context) {
	f.trickle(ctx, f.srv.Root, "GET /api/v1/services HTTP/1.1\r\nHost: assay\r\nX-Padding: "+strings.Repeat("x", 8<<10))
}

// calls sends the headers of calls over gRPC as fast as a connection takes them. Servers refuse most of them, since a
// connection may have few at a time.
func (f *fairLoad) calls(ctx context.Context, key string) {
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":authority", Value: "assay"},
		{Name: ":path", Value: "/opentelemetry.proto.collector.logs.v1.LogsService/Export"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}
	if key != "" {
		fields = append(fields, hpack.HeaderField{Name: "authorization", Value: "Bearer " + key})
	}
	f.withoutWaiting(ctx, f.srv.OTLPGRPC, func(out *bufio.Writer) error {
		framer := http2.NewFramer(out, nil)
		_, _ = out.WriteString(http2.ClientPreface)
		err := framer.WriteSettings()
		var headers bytes.Buffer
		encoder := hpack.NewEncoder(&headers)
		for id := uint32(1); err == nil && id < 1<<31; id += 2 {
			if id <= 3 { // after the first call, the fields are in the table of the connection, and the bytes are the same
				headers.Reset()
				for _, field := range fields {
					_ = encoder.WriteField(field)
				}
			}
			err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headers.Bytes(), EndHeaders: true, EndStream: true})
		}
		return err
	})
}

// pipeline sends requests over HTTP/1.1 as fast as a connection takes them.
func (f *fairLoad) pipeline(ctx context.Context, address string) {
	f.withoutWaiting(ctx, address, func(out *bufio.Writer) (err error) {
		for err == nil {
			_, err = out.WriteString("GET /none HTTP/1.1\r\nHost: assay\r\n\r\n")
		}
		return err
	})
}

// pages sends telemetry that leads to insights once, and then requests for large pages of them.
func (f *fairLoad) pages(ctx context.Context, key string, telemetry []byte) {
	f.attack(ctx, key, "/v1/logs", "", telemetry)
	f.withoutWaiting(ctx, f.srv.Root, func(out *bufio.Writer) (err error) {
		for err == nil {
			_, err = out.WriteString("GET /api/v1/insights?limit=100&sort=-impact HTTP/1.1\r\nHost: assay\r\nAuthorization: Bearer " + key + "\r\n\r\n")
		}
		return err
	})
}

// chunks sends bodies of small chunks as fast as a connection takes them.
func (f *fairLoad) chunks(ctx context.Context, key string) {
	body := strings.Repeat("1\r\nx\r\n", 64<<10) + "0\r\n\r\n"
	f.withoutWaiting(ctx, f.srv.OTLPHTTP, func(out *bufio.Writer) (err error) {
		for err == nil {
			_, err = out.WriteString("POST /v1/logs HTTP/1.1\r\nHost: assay\r\nAuthorization: Bearer " + key +
				"\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
		}
		return err
	})
}

// connect opens one connection to the REST listener after the other and sends some requests on each.
func (f *fairLoad) connect(ctx context.Context) {
	requests := []byte(strings.Repeat("GET /api/v1/services HTTP/1.1\r\nHost: assay\r\n\r\n", 19) +
		"GET /api/v1/services HTTP/1.1\r\nHost: assay\r\nConnection: close\r\n\r\n")
	f.dial(ctx, f.srv.Root, 0, func(c net.Conn) {
		if _, err := c.Write(requests); err == nil {
			_, _ = io.Copy(io.Discard, c) // until the server closes the connection
		}
	})
}

// withoutWaiting opens one connection after the other and sends on each until the server closes it, whatever it responds.
func (f *fairLoad) withoutWaiting(ctx context.Context, address string, send func(*bufio.Writer) error) {
	f.dial(ctx, address, fairBackoff, func(c net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_ = send(bufio.NewWriterSize(c, 16<<10)) // until the server closes the connection
	})
}

// trickle opens one connection after the other. On each it sends the start of a request,
// and then one byte a second until the server closes the connection.
func (f *fairLoad) trickle(ctx context.Context, address, beginning string) {
	f.dial(ctx, address, fairBackoff, func(c net.Conn) {
		_, err := c.Write([]byte(beginning))
		for err == nil {
			if err = sleep(ctx, time.Second); err == nil {
				_, err = c.Write([]byte{'x'})
			}
		}
	})
}

// dial opens one connection after the other, with a pause between them, and closes each when use returns or ctx ends.
func (f *fairLoad) dial(ctx context.Context, address string, pause time.Duration, use func(net.Conn)) {
	for ctx.Err() == nil {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			f.refused.Add(1)
			_ = sleep(ctx, fairBackoff)
			continue
		}
		end := context.AfterFunc(ctx, func() { _ = c.Close() })
		use(c)
		end()
		_ = c.Close() // the server may have closed it
		f.refused.Add(1)
		_ = sleep(ctx, pause)
	}
}

// attack sends one request of a flood and counts its result.
func (f *fairLoad) attack(ctx context.Context, key, path, encoding string, body []byte) {
	status, err := f.send(ctx, key, path, encoding, body)
	switch {
	case ctx.Err() != nil:
	case err == nil && status == http.StatusOK:
		f.taken.Add(1)
	default: // the server may also close the connection
		f.refused.Add(1)
		_ = sleep(ctx, fairBackoff)
	}
}
