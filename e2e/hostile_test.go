// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"assay"
	"assay/internal/assaytest"
	"assay/internal/rules/rulestest"
	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

// memoryLimit is the upper bound of the memory of a server with default settings, for any input.
const memoryLimit = 1 << 30

// TestHostileInput sends all kinds of malformed and malicious requests to one server. Each request gets a
// response that is not a server error, and no request closes the connection. Afterwards the server evaluates
// valid requests as before.
func TestHostileInput(t *testing.T) {
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey,
		"--commit-interval", "5ms", "--score-interval", "500ms", "--trace-idle", "500ms")
	h := &hostile{daemon: d, key: bootstrapKey}
	h.healthy(t, "regular") // created before the limits are reached

	for _, part := range []struct {
		name string
		run  func(*testing.T, *hostile)
	}{
		{"damaged protobuf", testDamaged},
		{"deep nesting", testDeepNesting},
		{"bombs", testBombs},
		{"text", testHostileText},
		{"times", testAbsurdTimes},
		{"metric names", testManyMetricNames},
		{"distinct everything", testDistinct},
		{"a million services", testMillionServices},
	} {
		t.Run(part.name, func(t *testing.T) {
			began := time.Now()
			part.run(t, h)
			require.True(t, d.Running(), "the server has ended: %s", d.Log.String())
			require.Less(t, d.peakMemory(t), int64(memoryLimit))
			t.Logf("%v, at most %d MiB so far", time.Since(began).Round(time.Millisecond), d.peakMemory(t)>>20)
		})
	}

	t.Run("healthy requests are evaluated", func(t *testing.T) {
		h.healthy(t, "regular")
		// Quotas are per organization.
		other := &hostile{daemon: d, key: d.newOrganization(t, "other")}
		other.healthy(t, "newcomer")
	})
	d.stop(t)
	require.Empty(t, d.errorLines())
}

// hostile sends as one organization and checks each response.
type hostile struct {
	*daemon
	key string
}

// answer is the response to a sender, of either transport.
type answer struct {
	code    codes.Code
	message string // of the error or of the partial success
}

var (
	offset  = regexp.MustCompile(`^byte [0-9]+: `)
	httpFor = map[codes.Code]int{
		codes.OK: http.StatusOK, codes.InvalidArgument: http.StatusBadRequest,
		codes.ResourceExhausted: http.StatusRequestEntityTooLarge, codes.Unavailable: http.StatusServiceUnavailable,
	}
)

// overHTTP sends a body. It returns an error for responses that are not part of the protocol.
func (h *hostile) overHTTP(ctx context.Context, signal wire.Signal, body []byte, headers ...string) (answer, error) {
	a, err := h.post(ctx, h.key, signal, body, headers...)
	if err != nil {
		return answer{}, fmt.Errorf("connection closed: %w", err)
	}
	if a.Status == http.StatusOK {
		return answer{codes.OK, string(a.Body)}, nil
	}
	var s spb.Status
	if err := proto.Unmarshal(a.Body, &s); err != nil {
		return answer{}, fmt.Errorf("body of response %d is not a status: %w", a.Status, err)
	}
	got := answer{codes.Code(s.GetCode()), s.GetMessage()}
	if want, ok := httpFor[got.code]; !ok || a.Status != want {
		return got, fmt.Errorf("response %d with code %v: %s", a.Status, got.code, got.message)
	}
	return got, nil
}

func (h *hostile) overGRPC(ctx context.Context, signal wire.Signal, body []byte, options ...grpc.CallOption) (answer, error) {
	ok, err := h.call(ctx, h.key, signal, body, options...)
	s, _ := status.FromError(err)
	got := answer{s.Code(), s.Message()}
	if err == nil {
		got.message = string(ok)
	}
	if _, ok := httpFor[got.code]; !ok {
		return got, fmt.Errorf("answered %v: %s", got.code, got.message)
	}
	return got, nil
}

// both sends a body over both transports and checks that the responses are equal.
func (h *hostile) both(ctx context.Context, signal wire.Signal, body []byte) (answer, error) {
	a, err := h.overHTTP(ctx, signal, body)
	if err != nil {
		return a, fmt.Errorf("HTTP: %w", err)
	}
	b, err := h.overGRPC(ctx, signal, body)
	switch {
	case err != nil:
		return b, fmt.Errorf("gRPC: %w", err)
	case a.code != b.code || a.code != codes.OK && a.message != b.message:
		return a, fmt.Errorf("HTTP response %+v, gRPC response %+v", a, b)
	case a.code != codes.OK && a.code != codes.InvalidArgument:
		return a, fmt.Errorf("unexpected code %v: %s", a.code, a.message)
	case a.code == codes.InvalidArgument && !offset.MatchString(a.message):
		return a, fmt.Errorf("no offset in %q", a.message)
	}
	return a, nil
}

// healthy sends a request of each signal for a service without defects, and waits until it has the score 100.
func (h *hostile) healthy(t *testing.T, service string) {
	t.Helper()
	since := time.Now().Truncate(time.Microsecond)
	for _, r := range healthy(service, time.Now()) {
		h.mustPost(t, h.key, r)
	}
	id := h.service(t, h.key, service).ID // there are thousands of services: keep the id
	eventually(t, func() bool {
		s := getAs[restService](t, h.daemon, h.key, "/v1/services/"+id).Data
		return !s.LastSeenAt.Before(since) && s.Score != nil && s.Score.Score == 100 && slices.Contains(s.Score.Evaluated, "SPA-002")
	}, "%s is not scored", service)
	require.Empty(t, getAs[[]restInsight](t, h.daemon, h.key, "/v1/services/"+id+"/insights").Data)
}

// healthy returns a request of each signal that fails no rule.
func healthy(service string, at time.Time) []rulestest.Request {
	resource := rulestest.Service(service)
	trace := int(at.UnixNano())
	set := func(s *tracepb.Span) {
		s.StartTimeUnixNano, s.EndTimeUnixNano = rulestest.Nano(at)-10_000_000, rulestest.Nano(at)
	}
	return []rulestest.Request{
		rulestest.Traces(rulestest.Spans(resource, rulestest.Span(trace, 1, 0, set), rulestest.Span(trace, 2, 1, set))),
		rulestest.MetricsRequest(rulestest.Metrics(resource, rulestest.Gauge("queue.length", "{item}", rulestest.Point(at)))),
		rulestest.LogsRequest(rulestest.Logs(resource, rulestest.Log("started", func(r *logspb.LogRecord) { r.TimeUnixNano = rulestest.Nano(at) }))),
	}
}

// each runs f for 0 to n-1 with bounded concurrency, and fails the test on an error.
func each(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	const atATime = 24
	var (
		all    sync.WaitGroup
		next   atomic.Int64
		failed atomic.Int64
	)
	for range atATime {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() < 5; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					failed.Add(1)
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, failed.Load())
}

// accepted repeats a request while the server is busy, like an exporter. A response other than OK is an
// error.
func accepted(t *testing.T, send func() (answer, error)) (a answer, err error) {
	busy := assaytest.Await(t.Context(), assaytest.Limit, 100*time.Millisecond, func() error {
		if a, err = send(); err == nil && a.code == codes.Unavailable {
			return errors.New("server busy")
		}
		return nil
	})
	if err = cmp.Or(err, busy); err == nil && a.code != codes.OK {
		err = fmt.Errorf("unexpected code %v: %s", a.code, a.message)
	}
	return a, err
}

// testDamaged sends requests that are truncated, have a flipped bit or a duplicated byte.
func testDamaged(t *testing.T, h *hostile) {
	stride := 6
	if long(t, "all forms of damage instead of one in six") {
		stride = 1
	}
	size := wiretest.Size{Resources: 1, Scopes: 1, Records: 1, Attributes: 3}
	whole := map[wire.Signal][]byte{
		wire.Traces:  wiretest.MarshalTraces(wiretest.Traces(size)),
		wire.Metrics: wiretest.MarshalMetrics(wiretest.Metrics(size)),
		wire.Logs:    wiretest.MarshalLogs(wiretest.Logs(size)),
	}
	for _, signal := range wiretest.Signals {
		var forms []string
		var bodies [][]byte
		i := 0
		for form, body := range wiretest.Damaged(recent(whole[signal])) {
			// Consecutive forms change bits of one byte: use a stride to change another bit of each byte.
			if i++; i%stride == 0 {
				forms, bodies = append(forms, form), append(bodies, slices.Clone(body))
			}
		}
		var taken, refused atomic.Int64
		each(t, len(bodies), func(i int) error {
			a, err := h.both(t.Context(), signal, bodies[i])
			if err != nil {
				return fmt.Errorf("%v, %s: %w", signal, forms[i], err)
			}
			if a.code == codes.OK {
				taken.Add(1)
			} else {
				refused.Add(1)
			}
			return nil
		})
		t.Logf("%v: %d accepted, %d rejected", signal, taken.Load(), refused.Load())
		require.Positive(t, taken.Load())
		require.Positive(t, refused.Load())
	}
}

// recent moves the timestamps of the fixtures, which differ only in their low bytes, to the present, so that
// the requests are evaluated.
func recent(body []byte) []byte {
	var then, now [8]byte
	binary.LittleEndian.PutUint64(then[:], 1_790_000_000_000_000_000)
	binary.LittleEndian.PutUint64(now[:], uint64(time.Now().Add(-time.Minute).UnixNano()))
	const low = 2
	return bytes.ReplaceAll(body, then[low:], now[low:])
}

// testDeepNesting nests values 10,000 levels deep, in protobuf and in JSON.
func testDeepNesting(t *testing.T, h *hostile) {
	const levels = 10_000
	for _, signal := range wiretest.Signals {
		for _, c := range []struct {
			depth int
			want  codes.Code
		}{{wire.MaxDepth, codes.OK}, {wire.MaxDepth + 1, codes.InvalidArgument}, {levels, codes.InvalidArgument}} {
			for _, mixed := range []bool{false, true} {
				a, err := h.both(t.Context(), signal, wiretest.InResource(wiretest.Nested(c.depth, mixed)))
				require.NoError(t, err)
				require.Equal(t, c.want, a.code, "%v, %d levels: %s", signal, c.depth, a.message)
			}
		}
	}
	// The body of a log record and an attribute of a span.
	body := protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), valueOf(wiretest.Nested(levels, true)))
	attribute := protowire.AppendBytes(protowire.AppendTag(nil, 9, protowire.BytesType), wiretest.Nested(levels, true))
	for signal, fields := range map[wire.Signal][]byte{wire.Logs: body, wire.Traces: attribute} {
		a, err := h.both(t.Context(), signal, wiretest.InRecord(fields))
		require.NoError(t, err)
		require.Equal(t, codes.InvalidArgument, a.code)
	}

	for depth, want := range map[int]codes.Code{wire.MaxDepth: codes.OK, levels: codes.InvalidArgument, 100_000: codes.InvalidArgument} {
		for open, end := range map[string]string{
			`{"arrayValue":{"values":[`:             `]}}`,
			`{"kvlistValue":{"values":[{"value":`:   `}]}}`,
			`{"array_value": {"values": [{}, null,`: `]}}`,
		} {
			if strings.Contains(open, "null") && want == codes.OK {
				continue
			}
			doc := `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":` +
				strings.Repeat(open, depth) + `{"stringValue":"x"}` + strings.Repeat(end, depth) + `}]}]}]}`
			a, err := h.asJSON(t.Context(), wire.Logs, []byte(doc))
			require.NoError(t, err)
			require.Equal(t, want, a.code, "%d levels of %s: %s", depth, open, a.message)
		}
	}
	for name, doc := range map[string]string{
		"open arrays":      strings.Repeat("[", 100_000),
		"open objects":     strings.Repeat(`{"a":`, 100_000),
		"unknown and deep": `{"unknown":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
		"open string":      `{"resourceLogs":"` + strings.Repeat("x", 1<<20),
		"half an escape":   `{"resourceLogs":[{"schemaUrl":"\ud800\u12"}]}`,
		"nothing":          ``,
		"NUL":              "\x00",
		"a number":         `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":1e999}]}]}]}`,
		"a long number":    `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":` + strings.Repeat("9", 1<<20) + `}]}]}]}`,
	} {
		a, err := h.asJSON(t.Context(), wire.Logs, []byte(doc))
		require.NoError(t, err, name)
		require.Equal(t, codes.InvalidArgument, a.code, name)
		require.Less(t, len(a.message), 1000, name)
		require.Regexp(t, offset, a.message, name)
	}
}

// valueOf returns the encoded value of an encoded KeyValue, whose last field is the value.
func valueOf(keyValue []byte) []byte {
	_, _, n := protowire.ConsumeField(keyValue) // the key
	_, _, m := protowire.ConsumeTag(keyValue[n:])
	v, _ := protowire.ConsumeBytes(keyValue[n+m:])
	return v
}

// asJSON sends a body as OTLP/JSON.
func (h *hostile) asJSON(ctx context.Context, signal wire.Signal, body []byte, headers ...string) (answer, error) {
	a, err := h.ask(ctx, http.MethodPost, h.OTLPHTTP+"/v1/"+signal.String(), body,
		append([]string{"Authorization", "Bearer " + h.key, "Content-Type", "application/json"}, headers...)...)
	if err != nil {
		return answer{}, err
	}
	if !json.Valid(a.Body) {
		return answer{}, fmt.Errorf("response is not JSON: %q", a.Body)
	}
	if a.Status == http.StatusOK {
		return answer{codes.OK, string(a.Body)}, nil
	}
	var s struct {
		Code    int
		Message string
	}
	if err := json.Unmarshal(a.Body, &s); err != nil {
		return answer{}, err
	}
	got := answer{codes.Code(s.Code), s.Message}
	if a.Status != httpFor[got.code] {
		return got, fmt.Errorf("response %d with code %v: %s", a.Status, got.code, got.message)
	}
	return got, nil
}

// testBombs sends small bodies that are large when decompressed, over both transports and concurrently.
func testBombs(t *testing.T, h *hostile) {
	over := make([]byte, 64<<20+1) // one byte over the limit
	full := over[:64<<20]
	member := gzipped(t, full)
	h.decompress(t, []bomb{
		{"one byte over", "gzip", gzipped(t, over), codes.ResourceExhausted},
		{"one byte over", "zstd", zstandard(t, over), codes.ResourceExhausted},
		// Zeros are not a valid request, but they are within the limit.
		{"just fits", "gzip", member, codes.InvalidArgument},
		{"just fits", "zstd", zstandard(t, full), codes.InvalidArgument},
		{"10 GiB in 160 members", "gzip", bytes.Repeat(member, 160), codes.ResourceExhausted},
		{"10 GiB in 160 frames", "zstd", bytes.Repeat(zstandard(t, full), 160), codes.ResourceExhausted},
		{"10 GiB declared", "zstd", declared(10<<30, false), codes.ResourceExhausted},
		{"10 GiB declared, 1 GiB window", "zstd", declared(10<<30, true), codes.ResourceExhausted},
		{"small, 2 GiB declared at its end", "gzip", append(slices.Clone(gzipped(t, []byte("x"))[:20]), 0xff, 0xff, 0xff, 0x7f), codes.InvalidArgument},
		{"bomb in a bomb", "gzip", gzipped(t, gzipped(t, over)), codes.InvalidArgument},
		{"not compressed", "gzip", []byte("no gzip"), codes.InvalidArgument},
		{"not compressed", "zstd", []byte("no zstd"), codes.InvalidArgument},
		{"cut off", "gzip", member[:len(member)/2], codes.InvalidArgument},
		{"nothing", "gzip", nil, codes.InvalidArgument},
		{"nothing", "zstd", nil, codes.InvalidArgument},
	})
	// Bodies that are rejected for their Content-Length before they are sent completely. The sender can read
	// the error.
	h.decompress(t, []bomb{
		{"over the compressed limit", "gzip", over[:16<<20+1], codes.ResourceExhausted},
		{"over the compressed limit", "zstd", over[:16<<20+1], codes.ResourceExhausted},
		{"over the limit, plain", "identity", over, codes.ResourceExhausted},
	})
}

// bomb is a compressed body and the expected response.
type bomb struct {
	name, encoding string
	body           []byte
	want           codes.Code
}

// decompress sends bombs concurrently over both transports.
func (h *hostile) decompress(t *testing.T, bombs []bomb) {
	t.Helper()
	each(t, 2*len(bombs), func(i int) error {
		b := bombs[i/2]
		var a answer
		// Other bombs may use up the memory budget. On a busy machine the connection of a slow sender may
		// also be closed after an early rejection.
		err := assaytest.Await(t.Context(), assaytest.Limit, assaytest.PollInterval, func() (err error) {
			if i%2 == 0 {
				a, err = h.overHTTP(t.Context(), wire.Logs, b.body, "Content-Encoding", b.encoding)
			} else {
				a, err = h.compressedCall(t.Context(), b.encoding, b.body)
			}
			if err == nil && a.code == codes.Unavailable {
				err = errors.New("server busy")
			}
			return err
		})
		switch {
		case err != nil:
			return fmt.Errorf("%s, %s: %w", b.name, b.encoding, err)
		case a.code != b.want:
			return fmt.Errorf("%s, %s: unexpected code %v: %s", b.name, b.encoding, a.code, a.message)
		case a.code == codes.InvalidArgument && !offset.MatchString(a.message):
			return fmt.Errorf("%s, %s: no offset in %q", b.name, b.encoding, a.message)
		}
		return nil
	})
}

// compressedCall calls over gRPC with a message that is already compressed, which the gRPC client does not
// support.
func (h *hostile) compressedCall(ctx context.Context, encoding string, body []byte) (answer, error) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	frame := binary.BigEndian.AppendUint32([]byte{1}, uint32(len(body)))
	if encoding == "identity" {
		frame[0] = 0
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+h.OTLPGRPC+"/opentelemetry.proto.collector.logs.v1.LogsService/Export", bytes.NewReader(append(frame, body...)))
	if err != nil {
		return answer{}, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/grpc", "Te": "trailers", "Grpc-Encoding": encoding, "Authorization": "Bearer " + h.key,
	} {
		req.Header.Set(name, value)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: assaytest.Limit}).Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("connection closed: %w", err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return answer{}, fmt.Errorf("connection closed: %w", err)
	}
	trailer := resp.Trailer
	if resp.Header.Get("Grpc-Status") != "" {
		trailer = resp.Header
	}
	code, err := strconv.Atoi(trailer.Get("Grpc-Status"))
	if err != nil {
		return answer{}, fmt.Errorf("missing status: %w", err)
	}
	message, err := url.PathUnescape(trailer.Get("Grpc-Message"))
	if err != nil {
		return answer{}, err
	}
	return answer{codes.Code(code), message}, nil
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	require.NoError(t, err)
	_, err = z.Write(b)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.Bytes()
}

func zstandard(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	defer z.Close()
	return z.EncodeAll(b, nil)
}

// declared returns a zstd frame that declares size bytes and holds one block of 128 KiB repeated 64 times.
func declared(size uint64, window bool) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0xFD2FB528)
	if window {
		b = append(b, 0xC0, 20<<3) // eight bytes of size, and a window of 1<<(10+20) bytes
	} else {
		b = append(b, 0xE0) // eight bytes of size; the window is the whole content
	}
	b = binary.LittleEndian.AppendUint64(b, size)
	for i := range 64 {
		head := uint32(128<<10)<<3 | 1<<1 // one repeated byte
		if i == 63 {
			head |= 1 // last block
		}
		b = append(b, byte(head), byte(head>>8), byte(head>>16), 0)
	}
	return b
}

// testHostileText puts text that can break displays, parsers and databases into every text field.
func testHostileText(t *testing.T, h *hostile) {
	texts := map[string]string{
		"invalid bytes":    "\xff\xfe\xc3\x28",
		"surrogates":       "a\xed\xa0\x80\xed\xb0\x80z", // encoded as in CESU-8
		"overlong NUL":     "\xc0\x80",
		"cut off":          "caf\xc3",
		"NUL":              "a\x00b",
		"controls":         "\x01\x02\x07\x08\x0b\x0c\x0e\x1b[31mred\x1b[0m\x7f\u0085\u2028\u2029",
		"title":            "\x1b]0;owned\x07",
		"right to left":    "\u202egnp.exe\u202c \u2066x\u2069 \u200f",
		"lines":            "one\ntwo\r\nthree\ttab",
		"markup":           "<script>alert(1)</script>'\"`${x}{{x}}%s%00\\",
		"SQL":              "'; DROP TABLE service; --",
		"noncharacters":    "\ufffe\uffff\U0010ffff",
		"combining":        strings.Repeat("e\u0301\u0302\u0303", 50),
		"10 KiB":           strings.Repeat("x", 10<<10),
		"10 KiB, invalid":  strings.Repeat("\xf0\x9f", 5<<10),
		"blank":            "  ",
		"looks like ours":  assay.OverflowService,
		"looks like empty": assay.UnknownService,
	}
	for name, text := range texts {
		for _, r := range everywhere(text, time.Now()) {
			a, err := h.both(t.Context(), r.Signal, r.Body)
			require.NoError(t, err, name)
			require.Equal(t, codes.OK, a.code, "%s in %v: %s", name, r.Signal, a.message)
		}
	}

	readable := func(path string) *answered {
		a := h.get(t, h.key, path)
		require.Equal(t, http.StatusOK, a.Status, path)
		require.True(t, utf8.Valid(a.Body), path)
		require.True(t, json.Valid(a.Body), path)
		return a
	}
	var scored map[string]restService
	var missing []string
	eventually(t, func() bool {
		scored = map[string]restService{}
		for path := "/v1/services?limit=100"; path != ""; {
			var page envelope[[]restService]
			require.NoError(t, json.Unmarshal(readable(path).Body, &page))
			for _, s := range page.Data {
				if s.Score != nil {
					scored[s.Name] = s
				}
			}
			path = strings.TrimPrefix(page.Links["next"], "/api")
		}
		missing = missing[:0]
		for name, text := range texts {
			if _, ok := scored[shownName(text)]; !ok && text != assay.OverflowService {
				missing = append(missing, name)
			}
		}
		return len(missing) == 0
	}, "not scored: %q", &missing)
	require.Contains(t, scored, "\uFFFD(")
	for path := "/v1/insights?limit=100"; path != ""; {
		var page envelope[[]restInsight]
		require.NoError(t, json.Unmarshal(readable(path).Body, &page))
		for _, i := range page.Data {
			readable("/v1/insights/" + i.ID)
			require.LessOrEqual(t, len(i.Attributes["resource_attributes"].(string)), 4<<10)
		}
		path = strings.TrimPrefix(page.Links["next"], "/api")
	}
	r := h.assay(t, "insight", "list")
	require.Zero(t, r.Code, r.Stderr)
	require.True(t, utf8.ValidString(r.Stdout))
	for _, forbidden := range []string{"\x00", "\x1b", "\x07", "\r", "\u202e", "\u2028", "\u0085"} {
		require.NotContains(t, r.Stdout, forbidden)
	}
}

// shownName returns the displayed name of a service that was sent with name.
func shownName(name string) string {
	const longest = 1 << 10
	name = name[:min(len(name), longest)]
	return strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), "\x00", "\uFFFD")
}

// testAbsurdTimes sends timestamps at the limits of their range, alone and combined.
func testAbsurdTimes(t *testing.T, h *hostile) {
	now := uint64(time.Now().UnixNano())
	times := []uint64{
		0, 1, 999, math.MaxInt64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64,
		now, now - uint64(31*24*time.Hour), now - uint64(366*24*time.Hour), now + uint64(time.Hour), now + uint64(100*365*24*time.Hour),
	}
	resource := rulestest.Service("times")
	each(t, len(times)*len(times), func(i int) error {
		a, b := times[i/len(times)], times[i%len(times)]
		span := rulestest.Span(1000+i, 1, 2, func(s *tracepb.Span) {
			s.StartTimeUnixNano, s.EndTimeUnixNano = a, b
			s.Events = []*tracepb.Span_Event{{Name: "e", TimeUnixNano: a}}
		})
		point := rulestest.Point(time.Unix(0, 0))
		point.StartTimeUnixNano, point.TimeUnixNano = a, b
		point.Exemplars = []*metricspb.Exemplar{{TimeUnixNano: a}}
		for _, r := range []rulestest.Request{
			rulestest.Traces(rulestest.Spans(resource, span)),
			rulestest.MetricsRequest(rulestest.Metrics(resource, rulestest.Gauge("g", "1", point))),
			rulestest.LogsRequest(rulestest.Logs(resource, rulestest.Log("x", func(l *logspb.LogRecord) {
				l.TimeUnixNano, l.ObservedTimeUnixNano = a, b
			}))),
		} {
			got, err := h.both(t.Context(), r.Signal, r.Body)
			if err == nil && got.code != codes.OK {
				err = errors.New(got.message)
			}
			if err != nil {
				return fmt.Errorf("%v with the timestamps %d and %d: %w", r.Signal, a, b, err)
			}
		}
		return nil
	})
	eventually(t, func() bool {
		s := h.service(t, h.key, "times")
		return s != nil && s.Score != nil && slices.Contains(s.Score.Evaluated, "SPA-002")
	}, "the service is not scored")
	s := h.service(t, h.key, "times")
	require.WithinDuration(t, time.Now(), s.LastSeenAt, 2*time.Minute)
	require.Equal(t, []string{"SPA-002"}, h.failedRules(t, h.key, "times"))
}

// testMillionServices sends a million service names.
func testMillionServices(t *testing.T, h *hostile) {
	const names = 10_000
	requests := 100
	if databases != nil { // the memory of the server is the same, and each store is full after the first request
		requests = 20
	}
	var warned atomic.Int64
	each(t, requests, func(i int) error {
		body := flood(i*names, names)
		a, err := accepted(t, func() (answer, error) {
			if i%2 == 0 {
				return h.overHTTP(t.Context(), wire.Logs, body)
			}
			return h.overGRPC(t.Context(), wire.Logs, body)
		})
		if strings.Contains(a.message, assay.OverflowService) {
			warned.Add(1)
		}
		return err
	})
	require.GreaterOrEqual(t, warned.Load(), int64(requests-2), "the responses report what was not evaluated")
	whole := flood(requests*names, 100*names)
	var a answer
	eventually(t, func() bool { // a busy server throttles the sender
		var err error
		a, err = h.overGRPC(t.Context(), wire.Logs, whole)
		require.NoError(t, err)
		return a.code != codes.Unavailable
	}, "not accepted")
	require.Equal(t, codes.InvalidArgument, a.code, a.message)
	require.Contains(t, a.message, "send smaller requests", "all in one request of %d MiB need too much work", len(whole)>>20)

	o := getAs[restOrganization](t, h.daemon, h.key, "/v1/organization").Data
	require.Equal(t, assay.DefaultMaxServices+1, o.ServicesCount, "the limit and the overflow service")
	overflow := h.service(t, h.key, assay.OverflowService)
	require.NotNil(t, overflow)
	require.Nil(t, overflow.Score)
	eventually(t, func() bool {
		found := getAs[[]restInsight](t, h.daemon, h.key, "/v1/services/"+overflow.ID+"/insights").Data
		return len(found) == 1 && found[0].Type.Name == "quota_exceeded" && found[0].Type.RuleID == ""
	}, "no insight reports the limit")
	require.Nil(t, h.service(t, h.key, assay.OverflowService).Score)
	require.Contains(t, h.Log.String(), "organization reached its limit of services")
}

// flood returns logs of n services, numbered from first.
func flood(first, n int) []byte {
	const digits = 7
	entry := rulestest.LogsRequest(rulestest.Logs(rulestest.Attrs("service.name", "flood-0000000"), &logspb.LogRecord{SeverityNumber: 9})).Body
	at := bytes.Index(entry, []byte("0000000"))
	body := bytes.Repeat(entry, n)
	for i := range n {
		// Patch the number in place for speed: a million entries are generated.
		for d, v := digits-1, first+i; v > 0; d, v = d-1, v/10 {
			body[i*len(entry)+at+d] = byte('0' + v%10)
		}
	}
	return body
}

// testManyMetricNames sends more metric names, attribute keys and units than the limits of one service.
func testManyMetricNames(t *testing.T, h *hostile) {
	warned := false
	for i := range 5 {
		var metrics []*metricspb.Metric
		for n := range 1000 {
			metrics = append(metrics, rulestest.Gauge(fmt.Sprintf("metric.%d.%d", i, n), "1",
				rulestest.Point(time.Now(), fmt.Sprintf("key.%d.%d", i, n), "v")))
		}
		r := rulestest.MetricsRequest(rulestest.Metrics(rulestest.Service("regular"), metrics...))
		a, err := h.both(t.Context(), r.Signal, r.Body)
		require.NoError(t, err)
		require.Equal(t, codes.OK, a.code, a.message)
		warned = warned || strings.Contains(a.message, assay.OverflowService)
	}
	require.True(t, warned, "the responses report what was not evaluated")
}

// testDistinct sends telemetry in which every part is unique: trace ids and span names, values of a metric
// attribute, instances.
func testDistinct(t *testing.T, h *hostile) {
	const requests = 60
	records := 1_000
	if long(t, "300,000 distinct records instead of 60,000") {
		records = 5_000
	}
	resource := rulestest.Service("distinct")
	now := time.Now()
	each(t, requests, func(i int) error {
		var r rulestest.Request
		switch i % 3 {
		case 0:
			spans := make([]*tracepb.Span, records)
			for n := range spans {
				spans[n] = rulestest.Span(i*records+n, 1, 2, func(s *tracepb.Span) {
					s.Name = fmt.Sprintf("GET /orders/%d/%s", i*records+n, strings.Repeat("x", 100))
					s.StartTimeUnixNano, s.EndTimeUnixNano = rulestest.Nano(now)-10_000_000, rulestest.Nano(now)
				})
			}
			r = rulestest.Traces(rulestest.Spans(resource, spans...))
		case 1:
			points := make([]*metricspb.NumberDataPoint, records)
			for n := range points {
				points[n] = rulestest.Point(now, "user", fmt.Sprint(i*records+n))
			}
			r = rulestest.MetricsRequest(rulestest.Metrics(resource, rulestest.Gauge("logins", "{login}", points...)))
		case 2:
			entries := make([]*logspb.ResourceLogs, records)
			for n := range entries {
				entries[n] = rulestest.Logs(rulestest.Attrs("service.name", "distinct", "deployment.environment.name", "test",
					"service.instance.id", fmt.Sprint(i*records+n), "host.name", fmt.Sprint(i*records+n)), rulestest.Log("x"))
			}
			r = rulestest.LogsRequest(entries...)
		}
		_, err := accepted(t, func() (answer, error) { return h.overHTTP(t.Context(), r.Signal, r.Body) })
		return err
	})
	eventually(t, func() bool {
		failed := h.failedRules(t, h.key, "distinct")
		return slices.Contains(failed, "SPA-003") && slices.Contains(failed, "MET-001") && slices.Contains(failed, "SPA-002")
	}, "%q", h.failedRules(t, h.key, "distinct"))
}

// everywhere returns a request of each signal with text in every text field and in every kind of value. The
// text may be any bytes except tildes.
func everywhere(text string, at time.Time) []rulestest.Request {
	// The library encodes only valid text: encode a placeholder and replace it.
	mark := strings.Repeat("~", len(text))
	all := record{at: at, service: rulestest.Attrs(
		"service.name", mark, "service.namespace", mark, "service.version", mark, "deployment.environment.name", mark,
	), text: func(string) string { return mark }}.requests()
	for i := range all {
		all[i].Body = bytes.ReplaceAll(all[i].Body, []byte(mark), []byte(text))
	}
	return all
}

// record fills the text fields of telemetry.
type record struct {
	at      time.Time
	service []rulestest.Attr
	text    func(place string) string
	more    func(place string) []rulestest.Attr // additional attributes; nil for none
}

// attributes returns attributes with text as the value, in nested values and in the key.
func (r record) attributes(place string) []rulestest.Attr {
	var more []rulestest.Attr
	if r.more != nil {
		more = r.more(place)
	}
	return append(append(more, rulestest.Attrs(
		"plain", r.text(place+" attribute"),
		"list", []any{r.text(place + " list"), []any{r.text(place + " nested list")}},
		"map", rulestest.Attrs("inner", r.text(place+" map"), "deep", rulestest.Attrs("x", []any{r.text(place + " nested map")})),
	)...), rulestest.Attrs(
		r.text(place+" attribute key"), "v",
		"keys", rulestest.Attrs(r.text(place+" map key"), 1),
	)...)
}

// requests returns a request of each signal. They fail many rules, so that most of the text is shown as
// evidence.
func (r record) requests() []rulestest.Request {
	nano := rulestest.Nano(r.at)
	resource := func(signal string) *resourcepb.Resource {
		own := rulestest.Attrs(
			"service.instance.id", r.text(signal+" instance"), "service.criticality", r.text(signal+" criticality"),
			"host.name", r.text(signal+" host"), "k8s.pod.name", r.text(signal+" pod"), "k8s.namespace.name", r.text(signal+" k8s namespace"),
			"host.ip", []any{r.text(signal + " host ip")}, "process.command_line", r.text(signal+" command line"),
			"process.command_args", []any{r.text(signal + " command args")},
			"telemetry.sdk.language", r.text(signal+" language"), "telemetry.sdk.version", r.text(signal+" SDK"),
			"process.runtime.version", r.text(signal+" runtime"), "url.full", r.text(signal+" misplaced"),
		)
		return &resourcepb.Resource{
			Attributes: append(append(slices.Clone(r.service), own...), r.attributes(signal+" resource")...),
			EntityRefs: []*commonpb.EntityRef{{
				SchemaUrl: r.text(signal + " entity schema"), Type: r.text(signal + " entity type"),
				IdKeys: []string{r.text(signal + " entity id")}, DescriptionKeys: []string{r.text(signal + " entity description")},
			}},
		}
	}
	scope := func(signal string) *commonpb.InstrumentationScope {
		return &commonpb.InstrumentationScope{
			Name: r.text(signal + " scope"), Version: r.text(signal + " scope version"), Attributes: r.attributes(signal + " scope"),
		}
	}
	trace := make([]byte, 16)
	binary.BigEndian.PutUint64(trace, nano)
	span := func(n int, place string, kind tracepb.Span_SpanKind) *tracepb.Span {
		return &tracepb.Span{
			TraceId: trace, SpanId: rulestest.SpanID(n), ParentSpanId: rulestest.SpanID(100 * (n - 1)), Kind: kind, // the parents of the others are missing
			Name: r.text(place + " name"), TraceState: r.text(place + " trace state"),
			StartTimeUnixNano: nano - 1000, EndTimeUnixNano: nano, Attributes: r.attributes(place),
			Status: &tracepb.Status{Message: r.text(place + " status"), Code: tracepb.Status_STATUS_CODE_ERROR},
			Events: []*tracepb.Span_Event{{TimeUnixNano: nano, Name: r.text(place + " event"), Attributes: r.attributes(place + " event")}},
			Links: []*tracepb.Span_Link{{
				TraceId: trace, SpanId: rulestest.SpanID(n), TraceState: r.text(place + " link state"), Attributes: r.attributes(place + " link"),
			}},
		}
	}
	spans := []*tracepb.Span{span(1, "root span", tracepb.Span_SPAN_KIND_CLIENT)}
	for n := range 24 { // short internal spans whose parent is missing
		spans = append(spans, span(n+2, "span", tracepb.Span_SPAN_KIND_INTERNAL))
	}

	exemplars := []*metricspb.Exemplar{{TimeUnixNano: nano, FilteredAttributes: r.attributes("exemplar")}}
	number := func(place string) []*metricspb.NumberDataPoint {
		p := rulestest.Point(r.at)
		p.Attributes, p.Exemplars = r.attributes(place+" point"), exemplars
		return []*metricspb.NumberDataPoint{p}
	}
	metric := func(place string, m *metricspb.Metric) *metricspb.Metric {
		m.Name, m.Description, m.Unit, m.Metadata = r.text(place+" name"), r.text(place+" description"), r.text(place+" unit"), r.attributes(place+" metadata")
		return m
	}
	histogram := func(bound float64) *metricspb.Metric {
		return metric("histogram", &metricspb.Metric{Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{
			DataPoints: []*metricspb.HistogramDataPoint{{
				TimeUnixNano: nano, Attributes: r.attributes("histogram point"), Exemplars: exemplars,
				ExplicitBounds: []float64{bound}, BucketCounts: []uint64{1, 2},
			}},
		}}})
	}
	metrics := []*metricspb.Metric{
		metric("gauge", &metricspb.Metric{Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: number("gauge")}}}),
		metric("sum", &metricspb.Metric{Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{DataPoints: number("sum")}}}),
		histogram(1), histogram(2), // conflicting definitions
		metric("exponential histogram", &metricspb.Metric{Data: &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: &metricspb.ExponentialHistogram{
			DataPoints: []*metricspb.ExponentialHistogramDataPoint{{TimeUnixNano: nano, Attributes: r.attributes("exponential point"), Exemplars: exemplars}},
		}}}),
		metric("summary", &metricspb.Metric{Data: &metricspb.Metric_Summary{Summary: &metricspb.Summary{
			DataPoints: []*metricspb.SummaryDataPoint{{TimeUnixNano: nano, Attributes: r.attributes("summary point")}},
		}}}),
	}

	log := func(place string, body *commonpb.AnyValue) *logspb.LogRecord {
		return &logspb.LogRecord{
			TimeUnixNano: nano, SeverityText: r.text(place + " severity"), Body: body,
			Attributes: r.attributes(place), EventName: r.text(place + " event name"),
		}
	}
	logs := []*logspb.LogRecord{
		log("log", rulestest.Value(r.text("log body"))),
		log("structured log", rulestest.Value(r.attributes("log body"))),
	}
	return []rulestest.Request{
		rulestest.Traces(&tracepb.ResourceSpans{Resource: resource("traces"), SchemaUrl: r.text("traces schema"), ScopeSpans: []*tracepb.ScopeSpans{
			{Scope: scope("traces"), SchemaUrl: r.text("traces scope schema"), Spans: spans},
		}}),
		rulestest.MetricsRequest(&metricspb.ResourceMetrics{Resource: resource("metrics"), SchemaUrl: r.text("metrics schema"), ScopeMetrics: []*metricspb.ScopeMetrics{
			{Scope: scope("metrics"), SchemaUrl: r.text("metrics scope schema"), Metrics: metrics},
		}}),
		rulestest.LogsRequest(&logspb.ResourceLogs{Resource: resource("logs"), SchemaUrl: r.text("logs schema"), ScopeLogs: []*logspb.ScopeLogs{
			{Scope: scope("logs"), SchemaUrl: r.text("logs scope schema"), LogRecords: logs},
		}}),
	}
}
