// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"assay"
	"assay/internal/receive"
	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

// parseSuccess decodes a response with the official decoders. The response type does not matter: the three have the
// same fields.
func parseSuccess(b []byte, json bool) (string, error) {
	r := ptraceotlp.NewExportResponse()
	var err error
	if json {
		err = r.UnmarshalJSON(b)
	} else {
		err = r.UnmarshalProto(b)
	}
	if r.PartialSuccess().RejectedSpans() != 0 {
		return "", errors.New("spans were rejected")
	}
	return r.PartialSuccess().ErrorMessage(), err
}

// sample returns a request of the given number of records in protobuf and in JSON.
func sample(t testing.TB, signal wire.Signal, records int) (protobuf, json []byte) {
	size := wiretest.Size{Resources: 1, Scopes: 1, Records: records, Attributes: 5}
	var err error
	switch signal {
	case wire.Traces:
		r := ptraceotlp.NewExportRequestFromTraces(wiretest.Traces(size))
		protobuf, _ = r.MarshalProto()
		json, err = r.MarshalJSON()
	case wire.Metrics:
		r := pmetricotlp.NewExportRequestFromMetrics(wiretest.Metrics(size))
		protobuf, _ = r.MarshalProto()
		json, err = r.MarshalJSON()
	default:
		r := plogotlp.NewExportRequestFromLogs(wiretest.Logs(size))
		protobuf, _ = r.MarshalProto()
		json, err = r.MarshalJSON()
	}
	require.NoError(t, err)
	return protobuf, json
}

// canonical re-encodes a request in a fixed field order.
func canonical(signal wire.Signal, body string) string {
	return string(wiretest.Ascending(signal, []byte(body)))
}

// eachWay runs f for every combination of sender, compression and signal.
func eachWay(t *testing.T, f func(t *testing.T, sender sender, signal wire.Signal, encoding string, compress func([]byte) []byte)) {
	for _, sender := range senders {
		for _, compression := range compressions {
			for _, signal := range signals {
				t.Run(fmt.Sprintf("%s/%s/%s", sender.name, compression.name, signal), func(t *testing.T) {
					f(t, sender, signal, compression.encoding, compression.compress)
				})
			}
		}
	}
}

func TestAccepted(t *testing.T) {
	ing := &ingester{}
	s := start(t, receive.Config{Ingester: ing})
	eachWay(t, func(t *testing.T, sender sender, signal wire.Signal, encoding string, compress func([]byte) []byte) {
		for _, records := range []int{0, 1, 400} {
			protobuf, json := sample(t, signal, records)
			body := protobuf
			if sender.json {
				body = json
			}
			compressed := compress(body)
			for _, told := range []bool{true, false} {
				ing.calls, s.events = nil, nil
				r := request{signal: signal, authorization: goodKey, encoding: encoding, body: bytes.NewReader(compressed), size: -1}
				if told {
					r.size = int64(len(compressed))
				}
				res, err := sender.send(t, s, r)
				require.NoError(t, err)
				require.Equal(t, receive.Accepted, res.outcome, res.message)
				require.Empty(t, res.warning)
				require.Len(t, ing.recorded(), 1)
				require.Equal(t, "org", ing.recorded()[0].organization)
				require.Equal(t, signal, ing.recorded()[0].signal)
				if sender.json {
					require.Equal(t, canonical(signal, string(protobuf)), canonical(signal, ing.recorded()[0].body))
				} else {
					require.Equal(t, string(protobuf), ing.recorded()[0].body)
				}
				require.Equal(t, []receive.Outcome{receive.Accepted}, s.outcomes())
				require.Equal(t, int64(len(compressed)), s.events[0].Received)
				require.Equal(t, int64(len(ing.recorded()[0].body)), s.events[0].Uncompressed)
				require.Equal(t, signal, s.events[0].Signal)
			}
		}
	})
}

func TestOutcomes(t *testing.T) {
	cause := errors.New("the secret cause")
	cases := []struct {
		name          string
		authorization string
		err           error // of Ingest
		warning       string
		outcome       receive.Outcome
		message       string
		retry         bool
		ingested      bool
	}{
		{name: "warning", authorization: goodKey, warning: "half of it is \xff odd", outcome: receive.Accepted, ingested: true},
		{name: "malformed", authorization: goodKey, err: fmt.Errorf("judging: %w", &wire.Error{Offset: 17, Field: "Span.name", Reason: "length is 9, 2 bytes are left"}), outcome: receive.Invalid, message: "byte 17: Span.name: length is 9, 2 bytes are left", ingested: true},
		{name: "invalid", authorization: goodKey, err: assay.Errorf(assay.CodeInvalid, "not like this"), outcome: receive.Invalid, message: "not like this", ingested: true},
		{name: "unavailable", authorization: goodKey, err: assay.Errorf(assay.CodeUnavailable, "engine is behind"), outcome: receive.Unavailable, message: "engine is behind", retry: true, ingested: true},
		{name: "too large", authorization: goodKey, err: assay.Errorf(assay.CodeTooLarge, "too much"), outcome: receive.TooLarge, message: "too much", ingested: true},
		{name: "rate limited", authorization: goodKey, err: assay.Errorf(assay.CodeRateLimited, "slower"), outcome: receive.RateLimited, message: "slower", retry: true, ingested: true},
		{name: "deadline", authorization: goodKey, err: fmt.Errorf("commit: %w", context.DeadlineExceeded), outcome: receive.Unavailable, message: "not committed in time", retry: true, ingested: true},
		{name: "internal", authorization: goodKey, err: cause, outcome: receive.Failed, message: "internal error", ingested: true},
		{name: "not found", authorization: goodKey, err: assay.Errorf(assay.CodeNotFound, "the secret cause"), outcome: receive.Failed, message: "internal error", ingested: true},
		{name: "no credential", outcome: receive.Unauthenticated, message: "no credential"},
		{name: "unknown key", authorization: "Bearer x", outcome: receive.Unauthenticated, message: "unknown key"},
		{name: "two credentials", authorization: goodKey + "\n" + goodKey, outcome: receive.Unauthenticated, message: "unknown key"},
		{name: "bad token", authorization: "Bearer a.b.c", outcome: receive.Unauthenticated, message: "unknown token"},
		{name: "no scope", authorization: readOnlyKey, outcome: receive.Forbidden, message: "credential does not permit sending telemetry"},
		{name: "user", authorization: userToken, outcome: receive.Forbidden, message: "credential does not permit sending telemetry"},
		{name: "store unavailable", authorization: "Bearer store-unavailable", outcome: receive.Unavailable, message: "store is unavailable", retry: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ing := &ingester{do: func(context.Context, wire.Signal, []byte) (string, error) { return c.warning, c.err }}
			s := start(t, receive.Config{Ingester: ing})
			eachWay(t, func(t *testing.T, sender sender, signal wire.Signal, encoding string, compress func([]byte) []byte) {
				ing.calls, s.events = nil, nil
				body, json := sample(t, signal, 1)
				if sender.json {
					body = json
				}
				body = compress(body)
				res, err := sender.send(t, s, request{
					signal: signal, authorization: c.authorization, encoding: encoding,
					body: bytes.NewReader(body), size: int64(len(body)),
				})
				require.NoError(t, err)
				require.Equal(t, c.outcome, res.outcome, res.message)
				require.Equal(t, c.message, res.message)
				require.Equal(t, c.retry, res.retry)
				require.Equal(t, c.outcome == receive.Unauthenticated, res.challenged)
				require.Equal(t, strings.ToValidUTF8(c.warning, "\uFFFD"), res.warning)
				if c.ingested {
					require.Len(t, ing.recorded(), 1)
				} else {
					require.Empty(t, ing.recorded())
				}
				require.Equal(t, []receive.Outcome{c.outcome}, s.outcomes())
			})
		})
	}
}

// TestRealClients: the clients that the Collector uses accept the responses.
func TestRealClients(t *testing.T) {
	for _, compressor := range []string{"identity", "gzip", "zstd"} {
		t.Run(compressor, func(t *testing.T) {
			ing := &ingester{do: func(_ context.Context, _ wire.Signal, body []byte) (string, error) {
				if len(body) == 0 {
					return "", assay.Errorf(assay.CodeUnavailable, "later")
				}
				return "a hint", nil
			}}
			s := start(t, receive.Config{Ingester: ing})
			conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultCallOptions(grpc.UseCompressor(compressor)))
			require.NoError(t, err)
			defer conn.Close()
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", goodKey)

			size := wiretest.Size{Resources: 2, Scopes: 2, Records: 500, Attributes: 10}
			traces, err := ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequestFromTraces(wiretest.Traces(size)))
			require.NoError(t, err)
			require.Equal(t, "a hint", traces.PartialSuccess().ErrorMessage())
			metrics, err := pmetricotlp.NewGRPCClient(conn).Export(ctx, pmetricotlp.NewExportRequestFromMetrics(wiretest.Metrics(size)))
			require.NoError(t, err)
			require.Equal(t, "a hint", metrics.PartialSuccess().ErrorMessage())
			logs, err := plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequestFromLogs(wiretest.Logs(size)))
			require.NoError(t, err)
			require.Equal(t, "a hint", logs.PartialSuccess().ErrorMessage())
			require.Equal(t, []call{
				{"org", wire.Traces, string(wiretest.MarshalTraces(wiretest.Traces(size)))},
				{"org", wire.Metrics, string(wiretest.MarshalMetrics(wiretest.Metrics(size)))},
				{"org", wire.Logs, string(wiretest.MarshalLogs(wiretest.Logs(size)))},
			}, ing.recorded())

			_, err = ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequest())
			require.Equal(t, codes.Unavailable, status.Code(err))
			require.Len(t, status.Convert(err).Details(), 1)
			_, err = ptraceotlp.NewGRPCClient(conn).Export(t.Context(), ptraceotlp.NewExportRequest())
			require.Equal(t, codes.Unauthenticated, status.Code(err))
			require.Equal(t, codes.Unimplemented, status.Code(conn.Invoke(ctx, "/opentelemetry.proto.collector.trace.v1.TraceService/Import", nil, nil, grpc.ForceCodecV2(noCodec{}))))
			require.Equal(t, codes.Unimplemented, status.Code(conn.Invoke(ctx, "/grpc.health.v1.Health/Check", nil, nil, grpc.ForceCodecV2(noCodec{}))))
		})
	}
}

func TestHTTPRefusals(t *testing.T) {
	post := func(path string, header http.Header) *http.Request {
		return &http.Request{Method: http.MethodPost, URL: mustURL("http://host" + path), Header: header}
	}
	good := http.Header{"Authorization": {goodKey}, "Content-Type": {"application/json"}}
	with := func(key string, values ...string) http.Header {
		h := good.Clone()
		h[key] = values
		if values == nil {
			delete(h, key)
		}
		return h
	}
	cases := []struct {
		name    string
		request *http.Request
		status  int
		headers map[string]string
	}{
		{"other path", post("/v1/profiles", good), 404, nil},
		{"path below", post("/v1/traces/", good), 404, nil},
		{"root", post("/", good), 404, nil},
		{"GET", &http.Request{Method: "GET", URL: mustURL("http://host/v1/traces"), Header: good}, 405, map[string]string{"Allow": "POST"}},
		{"HEAD", &http.Request{Method: "HEAD", URL: mustURL("http://host/v1/logs"), Header: good}, 405, map[string]string{"Allow": "POST"}},
		{"PUT", &http.Request{Method: "PUT", URL: mustURL("http://host/v1/metrics"), Header: good}, 405, map[string]string{"Allow": "POST"}},
		{"no content type", post("/v1/traces", with("Content-Type")), 415, nil},
		{"empty content type", post("/v1/traces", with("Content-Type", "")), 415, nil},
		{"other content type", post("/v1/traces", with("Content-Type", "application/protobuf")), 415, nil},
		{"deflate", post("/v1/traces", with("Content-Encoding", "deflate")), 415, map[string]string{"Accept-Encoding": "gzip, zstd"}},
		{"two encodings", post("/v1/traces", with("Content-Encoding", "gzip, zstd")), 415, nil},
		{"two encoding headers", post("/v1/traces", with("Content-Encoding", "gzip", "gzip")), 415, nil},
		{"credential before content type", post("/v1/traces", http.Header{}), 401, map[string]string{"Www-Authenticate": "Bearer"}},
		{"not JSON", post("/v1/traces", good), 400, nil},
	}
	s := start(t, receive.Config{})
	client := newClient(t, false)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.request.URL.Host = s.http
			response, err := client.Do(c.request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, c.status, response.StatusCode)
			require.Equal(t, "application/json", response.Header.Get("Content-Type"))
			for k, v := range c.headers {
				require.Equal(t, v, response.Header.Get(k))
			}
		})
	}
	t.Run("case and parameters do not matter", func(t *testing.T) {
		body, _ := sample(t, wire.Logs, 1)
		for _, media := range []string{"Application/X-Protobuf", "application/x-protobuf;messageType=x", "application/x-protobuf ; a=b"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.http+"/v1/logs", bytes.NewReader(gzipped(body)))
			require.NoError(t, err)
			r.Header = http.Header{"Authorization": {goodKey}, "Content-Type": {media}, "Content-Encoding": {"GZip"}}
			response, err := client.Do(r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, 200, response.StatusCode)
			require.Equal(t, "application/x-protobuf", response.Header.Get("Content-Type"))
		}
	})
}

func TestNewRefusesBadConfig(t *testing.T) {
	good := receive.Config{Authenticate: authenticate, Ingester: &ingester{}}
	for name, change := range map[string]func(*receive.Config){
		"no authenticate": func(c *receive.Config) { c.Authenticate = nil },
		"no ingester":     func(c *receive.Config) { c.Ingester = nil },
		"negative limit":  func(c *receive.Config) { c.MaxCompressed = -1 },
		"negative time":   func(c *receive.Config) { c.AnswerTimeout = -1 },
		"small budget":    func(c *receive.Config) { c.InFlightBytes = 100 << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			change(&cfg)
			_, err := receive.New(cfg)
			require.Error(t, err)
		})
	}
	cfg := good
	cfg.MaxUncompressed = 1 << 30
	_, err := receive.New(cfg)
	require.NoError(t, err, "the default budget follows the limits")
}

// limited is an error with a retry delay.
type limited struct{ error }

func (limited) RetryAfter() time.Duration { return 1500 * time.Millisecond }

func (e limited) Unwrap() error { return e.error }

func TestRemoteAddressAndRetryAfter(t *testing.T) {
	var got atomic.Value
	s := start(t, receive.Config{Ingester: &ingester{}, Authenticate: func(_ context.Context, _, remoteAddr string) (*assay.Principal, error) {
		got.Store(remoteAddr)
		return nil, limited{assay.Errorf(assay.CodeRateLimited, "too many")}
	}})
	for _, sender := range senders {
		t.Run(sender.name, func(t *testing.T) {
			got.Store("")
			res, err := sender.send(t, s, request{signal: wire.Logs, authorization: goodKey, body: strings.NewReader("{}"), size: 2})
			require.NoError(t, err)
			require.Equal(t, receive.RateLimited, res.outcome)
			require.Equal(t, "too many", res.message)
			require.Contains(t, []time.Duration{1500 * time.Millisecond, 2 * time.Second}, res.after, "exact, or in whole seconds")
			address, err := netip.ParseAddrPort(got.Load().(string))
			require.NoError(t, err)
			require.True(t, address.Addr().IsLoopback())
		})
	}
}
