// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"assay"
	"assay/internal/receive"
	"assay/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ingester is an Ingester that records its calls unless do is set.
type ingester struct {
	do func(ctx context.Context, signal wire.Signal, body []byte) (string, error)

	mu    sync.Mutex
	calls []call
}

type call struct {
	organization string
	signal       wire.Signal
	body         string
}

func (i *ingester) Ingest(ctx context.Context, organization string, signal wire.Signal, body []byte) (string, error) {
	i.mu.Lock()
	i.calls = append(i.calls, call{organization, signal, string(body)})
	i.mu.Unlock()
	if i.do != nil {
		return i.do(ctx, signal, body)
	}
	return "", nil
}

func (i *ingester) recorded() []call {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.calls
}

// Credentials that authenticate accepts.
const (
	goodKey     = "Bearer good"
	readOnlyKey = "Bearer read-only"
	userToken   = "Bearer us.er.token"
)

func authenticate(_ context.Context, authorization, _ string) (*assay.Principal, error) {
	switch authorization {
	case goodKey:
		return &assay.Principal{OrganizationID: "org", Scopes: []assay.Scope{assay.ScopeIngest}}, nil
	case readOnlyKey:
		return &assay.Principal{OrganizationID: "org", Scopes: []assay.Scope{assay.ScopeRead}}, nil
	case userToken:
		return &assay.Principal{OrganizationID: "org", Subject: "someone", User: true, Scopes: assay.Scopes()}, nil
	case "":
		return nil, assay.Errorf(assay.CodeMissingCredentials, "no credential")
	case "Bearer a.b.c":
		return nil, assay.Errorf(assay.CodeInvalidToken, "unknown token")
	case "Bearer store-unavailable":
		return nil, assay.Errorf(assay.CodeUnavailable, "store is unavailable")
	default:
		return nil, assay.Errorf(assay.CodeInvalidAPIKey, "unknown key")
	}
}

// server is a Receiver on the loopback interface.
type server struct {
	*receive.Receiver
	grpc, http string                // addresses
	clients    map[bool]*http.Client // key: HTTP/2

	mu     sync.Mutex
	events []receive.Event
}

func start(t testing.TB, cfg receive.Config) *server {
	t.Helper()
	s := &server{}
	if cfg.Authenticate == nil {
		cfg.Authenticate = authenticate
	}
	if cfg.Ingester == nil {
		cfg.Ingester = &ingester{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Observe = func(e receive.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, e)
	}
	var err error
	s.Receiver, err = receive.New(cfg)
	require.NoError(t, err)
	served := make(chan error, 2)
	listen := func(transport receive.Transport) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() { served <- s.Serve(transport, l) }()
		return l.Addr().String()
	}
	s.grpc, s.http = listen(receive.GRPC), listen(receive.HTTP)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.NoError(t, <-served)
		require.NoError(t, <-served)
		require.Zero(t, s.BytesInFlight())
		require.Zero(t, s.Requests())
	})
	s.clients = map[bool]*http.Client{false: newClient(t, false), true: newClient(t, true)}
	return s
}

// outcomes returns the outcomes of all requests so far.
func (s *server) outcomes() []receive.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	var o []receive.Outcome
	for _, e := range s.events {
		o = append(o, e.Outcome)
	}
	return o
}

// sender is one way to send a request.
type sender struct {
	name string
	// send returns the response status, and the warning of a partial success.
	send func(t testing.TB, s *server, r request) (result, error)
	json bool
}

// request is sent by a test. Its body is sent unmodified.
type request struct {
	signal        wire.Signal
	authorization string // lines: a field for each
	encoding      string
	body          io.Reader
	size          int64 // of body; -1: unknown
	ctx           context.Context
	client        *http.Client // default: one of the server's
}

type result struct {
	outcome    receive.Outcome // from the status code
	code       codes.Code
	message    string
	warning    string
	retry      bool
	after      time.Duration // retry delay
	challenged bool          // asked for a credential
	body       []byte
}

var senders = []sender{
	{name: "grpc", send: sendGRPC},
	{name: "http protobuf", send: func(t testing.TB, s *server, r request) (result, error) {
		return sendHTTP(t, s, r, "application/x-protobuf")
	}},
	{name: "http json", json: true, send: func(t testing.TB, s *server, r request) (result, error) {
		return sendHTTP(t, s, r, "application/json; charset=utf-8")
	}},
}

// newClient returns an HTTP client that uses only HTTP/1.1 or only HTTP/2 without TLS.
func newClient(t testing.TB, http2 bool) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	transport := &http.Transport{Protocols: &protocols, DisableCompression: true, MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (r *request) prepare(t testing.TB, s *server, method, url string, body io.Reader, http2 bool) *http.Request {
	if r.ctx == nil {
		r.ctx = context.Background()
	}
	if r.client == nil {
		r.client = s.clients[http2]
	}
	hr, err := http.NewRequestWithContext(r.ctx, method, url, body)
	require.NoError(t, err)
	for value := range strings.Lines(r.authorization) {
		hr.Header.Add("Authorization", strings.TrimSpace(value))
	}
	return hr
}

func sendHTTP(t testing.TB, s *server, r request, contentType string) (result, error) {
	hr := r.prepare(t, s, http.MethodPost, "http://"+s.http+"/v1/"+r.signal.String(), r.body, false)
	hr.ContentLength = r.size
	hr.Header.Set("Content-Type", contentType)
	if r.encoding != "" {
		hr.Header.Set("Content-Encoding", r.encoding)
	}
	response, err := r.client.Do(hr)
	if err != nil {
		return result{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return result{}, err
	}
	res := result{
		retry:      response.Header.Get("Retry-After") != "",
		challenged: response.Header.Get("WWW-Authenticate") != "",
		body:       body,
	}
	if res.retry {
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		require.NoError(t, err)
		res.after = time.Duration(seconds) * time.Second
	}
	json := contentType != "application/x-protobuf"
	got := response.Header.Get("Content-Type")
	if want := map[bool]string{false: "application/x-protobuf", true: "application/json"}[json]; got != want {
		return result{}, fmt.Errorf("answered %d in %q, not %q", response.StatusCode, got, want)
	}
	if response.StatusCode == http.StatusOK {
		res.outcome = receive.Accepted
		res.warning, err = parseSuccess(body, json)
		return res, err
	}
	var status spb.Status
	if json {
		err = protojson.Unmarshal(body, &status)
	} else {
		err = proto.Unmarshal(body, &status)
	}
	res.code, res.message = codes.Code(status.GetCode()), status.GetMessage()
	for outcome, want := range httpStatus {
		if want == response.StatusCode {
			res.outcome = outcome
		}
	}
	if res.outcome == "" {
		return res, fmt.Errorf("answered %d: %s", response.StatusCode, res.message)
	}
	return res, err
}

var httpStatus = map[receive.Outcome]int{
	receive.Invalid:         400,
	receive.Unauthenticated: 401,
	receive.Forbidden:       403,
	receive.Slow:            408,
	receive.TooLarge:        413,
	receive.Unsupported:     415,
	receive.RateLimited:     429,
	receive.Unavailable:     503,
	receive.Failed:          500,
}

var grpcCode = map[receive.Outcome]codes.Code{
	receive.Accepted:        codes.OK,
	receive.Invalid:         codes.InvalidArgument,
	receive.Unauthenticated: codes.Unauthenticated,
	receive.Forbidden:       codes.PermissionDenied,
	receive.Slow:            codes.DeadlineExceeded,
	receive.TooLarge:        codes.ResourceExhausted,
	receive.Unsupported:     codes.Unimplemented,
	receive.Unavailable:     codes.Unavailable,
	receive.Failed:          codes.Internal,
}

var methods = map[wire.Signal]string{
	wire.Traces:  "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
	wire.Metrics: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
	wire.Logs:    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}

// sendGRPC implements gRPC by hand, so that tests can send malformed and slow messages.
func sendGRPC(t testing.TB, s *server, r request) (result, error) {
	size := r.size
	if size < 0 { // gRPC needs the size
		b, err := io.ReadAll(r.body)
		require.NoError(t, err)
		r.body, size = bytes.NewReader(b), int64(len(b))
	}
	header := make([]byte, 5)
	if r.encoding != "" && r.encoding != "identity" {
		header[0] = 1
	}
	binary.BigEndian.PutUint32(header[1:], uint32(size))
	body := io.MultiReader(bytes.NewReader(header), r.body)
	if closer, ok := r.body.(io.Closer); ok { // the client closes an unread body
		body = struct {
			io.Reader
			io.Closer
		}{body, closer}
	}
	return callGRPC(t, s, r, methods[r.signal], body)
}

func callGRPC(t testing.TB, s *server, r request, method string, body io.Reader) (result, error) {
	hr := r.prepare(t, s, http.MethodPost, "http://"+s.grpc+method, body, true)
	hr.Header.Set("Content-Type", "application/grpc")
	hr.Header.Set("Te", "trailers")
	if r.encoding != "" {
		hr.Header.Set("Grpc-Encoding", r.encoding)
	}
	response, err := r.client.Do(hr)
	if err != nil {
		return result{}, err
	}
	defer response.Body.Close()
	message, err := io.ReadAll(response.Body)
	if err != nil {
		return result{}, err
	}
	trailer := response.Trailer
	if response.Header.Get("Grpc-Status") != "" {
		trailer = response.Header
	}
	code, err := strconv.Atoi(trailer.Get("Grpc-Status"))
	if err != nil {
		return result{}, err
	}
	res := result{code: codes.Code(code), body: message}
	res.message, _ = url.PathUnescape(trailer.Get("Grpc-Message"))
	res.challenged = res.code == codes.Unauthenticated
	if details := trailer.Get("Grpc-Status-Details-Bin"); details != "" {
		b, err := base64.RawStdEncoding.DecodeString(details)
		require.NoError(t, err)
		var status spb.Status
		require.NoError(t, proto.Unmarshal(b, &status))
		for _, d := range status.GetDetails() {
			var retry errdetails.RetryInfo
			if d.MessageIs(&retry) {
				require.NoError(t, d.UnmarshalTo(&retry))
				res.retry, res.after = true, retry.GetRetryDelay().AsDuration()
			}
		}
	}
	for outcome, want := range grpcCode {
		if want == res.code && (outcome != receive.RateLimited || res.retry) {
			res.outcome = outcome
		}
	}
	if res.outcome == receive.TooLarge && res.retry {
		res.outcome = receive.RateLimited
	}
	if res.code == codes.OK {
		if len(message) < 5 {
			return res, errors.New("no message")
		}
		res.warning, err = parseSuccess(message[5:], false)
		return res, err
	}
	if res.outcome == "" {
		return res, fmt.Errorf("answered %s: %s", res.code, res.message)
	}
	return res, nil
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// zstandard compresses b without a content size, as a streaming encoder does.
func zstandard(b []byte) []byte {
	var out bytes.Buffer
	z, _ := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	for len(b) > 0 {
		n := min(len(b), 1<<16)
		_, _ = z.Write(b[:n])
		_ = z.Flush()
		b = b[n:]
	}
	_ = z.Close()
	return out.Bytes()
}

func zstandardSized(b []byte) []byte {
	z, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	defer z.Close()
	return z.EncodeAll(b, nil)
}

func identity(b []byte) []byte { return b }

var compressions = []struct {
	name, encoding string
	compress       func([]byte) []byte
}{
	{"plain", "", identity},
	{"identity", "identity", identity},
	{"gzip", "gzip", gzipped},
	{"zstd", "zstd", zstandard},
	{"zstd sized", "zstd", zstandardSized},
}

var signals = []wire.Signal{wire.Traces, wire.Metrics, wire.Logs}

func mustURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

// noCodec sends empty messages.
type noCodec struct{}

func (noCodec) Name() string                         { return "proto" }
func (noCodec) Marshal(any) (mem.BufferSlice, error) { return nil, nil }
func (noCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
