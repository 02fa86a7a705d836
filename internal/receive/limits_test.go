// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/receive"
	"assay/internal/wire"
)

// padded is a valid JSON request of n bytes. It is not valid protobuf, which the Receiver does not check.
func padded(n int) []byte { return append([]byte("{}"), bytes.Repeat([]byte{' '}, n-2)...) }

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func TestLimits(t *testing.T) {
	const maxCompressed, maxUncompressed = 100_000, 1_000_000
	cases := []struct {
		name, encoding string
		body           []byte
		outcome        receive.Outcome
	}{
		{"plain at the limit", "", padded(maxUncompressed), receive.Accepted},
		{"plain over the limit", "", padded(maxUncompressed + 1), receive.TooLarge},
		{"plain far over the limit", "", padded(10 * maxUncompressed), receive.TooLarge},
		{"gzip at the limit", "gzip", gzipped(padded(maxUncompressed)), receive.Accepted},
		{"gzip over the limit", "gzip", gzipped(padded(maxUncompressed + 1)), receive.TooLarge},
		{"gzip bomb", "gzip", gzipped(padded(50 * maxUncompressed)), receive.TooLarge},
		{"gzip of two members", "gzip", slices.Concat(gzipped(padded(maxUncompressed/2)), gzipped(bytes.Repeat([]byte{' '}, maxUncompressed/2))), receive.Accepted},
		{"gzip bomb of two members", "gzip", slices.Concat(gzipped(padded(50*maxUncompressed)), gzipped([]byte{' '})), receive.TooLarge},
		{"gzip with a too small size", "gzip", slices.Concat(gzipped(padded(maxUncompressed/2)), gzipped([]byte{' '})), receive.Accepted},
		{"compressed gzip over the limit", "gzip", gzipped(noise(maxCompressed)), receive.TooLarge},
		{"zstd at the limit", "zstd", zstandard(padded(maxUncompressed)), receive.Accepted},
		{"zstd over the limit", "zstd", zstandard(padded(maxUncompressed + 1)), receive.TooLarge},
		{"zstd bomb", "zstd", zstandard(padded(50 * maxUncompressed)), receive.TooLarge},
		{"zstd sized at the limit", "zstd", zstandardSized(padded(maxUncompressed)), receive.Accepted},
		{"zstd sized over the limit", "zstd", zstandardSized(padded(maxUncompressed + 1)), receive.TooLarge},
		{"zstd sized bomb", "zstd", zstandardSized(padded(50 * maxUncompressed)), receive.TooLarge},
		{"zstd of two frames", "zstd", slices.Concat(zstandardSized(padded(maxUncompressed/2)), zstandardSized(bytes.Repeat([]byte{' '}, maxUncompressed/2))), receive.Accepted},
		{"zstd of two frames over the limit", "zstd", slices.Concat(zstandardSized(padded(maxUncompressed)), zstandardSized([]byte{' '})), receive.TooLarge},
		{"zstd after a skippable frame", "zstd", slices.Concat([]byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}, zstandard(padded(1000))), receive.Accepted},
		{"compressed zstd over the limit", "zstd", zstandardSized(noise(maxCompressed + 1)), receive.TooLarge},
		{"not gzip", "gzip", padded(100), receive.Invalid},
		{"empty gzip", "gzip", nil, receive.Invalid},
		{"half a gzip header", "gzip", gzipped(padded(100))[:5], receive.Invalid},
		{"truncated gzip", "gzip", gzipped(noise(1000))[:500], receive.Invalid},
		{"gzip without its checksum", "gzip", gzipped(padded(1000))[:20], receive.Invalid},
		{"gzip with a wrong checksum", "gzip", flip(gzipped(padded(1000)), -5), receive.Invalid},
		{"gzip with a wrong size", "gzip", flip(gzipped(padded(1000)), -1), receive.Invalid},
		{"gzip with trailing data", "gzip", append(gzipped(padded(1000)), "\xff\xff\xff\x7f"...), receive.Invalid},
		{"not zstd", "zstd", padded(100), receive.Invalid},
		{"empty zstd", "zstd", nil, receive.Invalid},
		{"half a zstd header", "zstd", zstandard(padded(100))[:3], receive.Invalid},
		{"truncated zstd", "zstd", zstandard(noise(1000))[:500], receive.Invalid},
		{"zstd with a wrong checksum", "zstd", flip(zstandard(padded(1000)), -1), receive.Invalid},
		{"zstd with trailing data", "zstd", append(zstandard(padded(1000)), "rest"...), receive.Invalid},
	}
	ing := &ingester{}
	s := start(t, receive.Config{Ingester: ing, MaxCompressed: maxCompressed, MaxUncompressed: maxUncompressed})
	for _, c := range cases {
		for _, sender := range senders {
			for _, told := range []bool{true, false} {
				name := c.name + "/" + sender.name
				size := int64(len(c.body))
				if !told {
					name, size = name+" untold", -1
				}
				t.Run(name, func(t *testing.T) {
					ing.calls = nil
					res, err := sender.send(t, s, request{
						signal: wire.Traces, authorization: goodKey, encoding: c.encoding, body: bytes.NewReader(c.body), size: size,
					})
					require.NoError(t, err)
					require.Equal(t, c.outcome, res.outcome, res.message)
					require.False(t, res.retry)
					if c.outcome == receive.Accepted {
						require.Len(t, ing.recorded(), 1)
					} else {
						require.Empty(t, ing.recorded())
					}
				})
			}
		}
	}
}

// flip changes one byte, counted from the end if i is negative.
func flip(b []byte, i int) []byte {
	if i < 0 {
		i += len(b)
	}
	b[i] ^= 0x40
	return b
}

func TestJSONThatGrowsPastTheLimit(t *testing.T) {
	s := start(t, receive.Config{MaxUncompressed: 1 << 20})
	body := []byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"histogram":{"dataPoints":[{"bucketCounts":[0` +
		strings.Repeat(",0", 500_000) + `]}]}}]}]}]}`)
	require.Less(t, len(body), 1<<20)
	res, err := senders[2].send(t, s, request{signal: wire.Metrics, authorization: goodKey, body: bytes.NewReader(body), size: int64(len(body))})
	require.NoError(t, err)
	require.Equal(t, receive.TooLarge, res.outcome, res.message)
}

func TestGRPCFrames(t *testing.T) {
	frame := func(flag byte, size uint32, content string) []byte {
		b := append([]byte{flag}, binary.BigEndian.AppendUint32(nil, size)...)
		return append(b, content...)
	}
	cases := []struct {
		name, encoding string
		body           []byte
		outcome        receive.Outcome
	}{
		{"empty message", "", frame(0, 0, ""), receive.Accepted},
		{"plain message with an encoding", "gzip", frame(0, 2, "ab"), receive.Accepted},
		{"no message", "", nil, receive.Invalid},
		{"half a header", "", []byte{0, 0}, receive.Invalid},
		{"half a message", "", frame(0, 10, "abc"), receive.Invalid},
		{"two messages", "", slices.Concat(frame(0, 1, "a"), frame(0, 1, "b")), receive.Invalid},
		{"half a second message", "", slices.Concat(frame(0, 1, "a"), []byte{0}), receive.Invalid},
		{"compressed without an encoding", "", frame(1, 1, "a"), receive.Invalid},
		{"compressed as identity", "identity", frame(1, 1, "a"), receive.Invalid},
		{"unknown flag", "gzip", frame(2, 1, "a"), receive.Invalid},
		{"unknown encoding", "snappy", frame(1, 1, "a"), receive.Unsupported},
		{"too large by its header", "", frame(0, 1<<31, "abc"), receive.TooLarge},
		{"compressed too large by its header", "gzip", frame(1, 16<<20+1, "abc"), receive.TooLarge},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, receive.Config{})
			res, err := callGRPC(t, s, request{authorization: goodKey, encoding: c.encoding}, methods[wire.Logs], bytes.NewReader(c.body))
			require.NoError(t, err)
			require.Equal(t, c.outcome, res.outcome, res.message)
			require.False(t, res.retry)
		})
	}
}

// stalled is a body of which only the first bytes arrive.
func stalled(t *testing.T, first string) io.ReadCloser {
	r, w := io.Pipe()
	t.Cleanup(func() { _ = r.Close() })
	go func() { _, _ = io.WriteString(w, first) }() // ends with the reader
	return r
}

func TestCredentialIsCheckedBeforeTheBody(t *testing.T) {
	for _, sender := range senders {
		t.Run(sender.name, func(t *testing.T) {
			s := start(t, receive.Config{})
			res, err := sender.send(t, s, request{signal: wire.Logs, body: stalled(t, "{"), size: 1000})
			require.NoError(t, err)
			require.Equal(t, receive.Unauthenticated, res.outcome)
			require.Zero(t, s.events[0].Received)
			require.Less(t, s.events[0].Duration, receive.DefaultArrivalTimeout/2)
		})
	}
}

// TestRefusedSenderReadsTheAnswer: a slow sender whose request was refused early still reads the response.
func TestRefusedSenderReadsTheAnswer(t *testing.T) {
	const size, pieces = 1 << 20, 20
	for name, c := range map[string]struct {
		authorization string
		want          string
	}{
		"too large":     {goodKey, "HTTP/1.1 413 "},
		"no credential": {"", "HTTP/1.1 401 "},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, receive.Config{MaxUncompressed: size - 1, MaxCompressed: size - 1})
			conn, err := net.Dial("tcp", s.http)
			require.NoError(t, err)
			defer conn.Close()
			_, err = fmt.Fprintf(conn, "POST /v1/logs HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
				c.authorization, size)
			require.NoError(t, err)
			for range pieces {
				_, err = conn.Write(make([]byte, size/pieces))
				require.NoError(t, err)
				time.Sleep(time.Second / pieces)
			}
			_, err = conn.Write(make([]byte, size%pieces))
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
			answer := make([]byte, len(c.want))
			_, err = io.ReadFull(conn, answer)
			require.NoError(t, err)
			require.Equal(t, c.want, string(answer))
		})
	}
}

func TestSlowBody(t *testing.T) {
	for _, sender := range senders {
		t.Run(sender.name, func(t *testing.T) {
			t.Parallel()
			ing := &ingester{}
			s := start(t, receive.Config{Ingester: ing, ArrivalTimeout: 4 * time.Second}) // enough for the header
			res, err := sender.send(t, s, request{signal: wire.Logs, authorization: goodKey, body: stalled(t, "{"), size: 1000})
			if err == nil { // a client that is still writing may not see the answer
				require.Equal(t, receive.Slow, res.outcome, res.message)
			}
			require.Equal(t, []receive.Outcome{receive.Slow}, s.outcomes())
			require.Empty(t, ing.recorded())
		})
	}
}

func TestSlowHeader(t *testing.T) {
	for _, first := range []string{"", "POST /v1/traces HTTP/1.1\r\nHost: x\r\n", "PRI * HTTP/2.0\r\n\r\nSM"} {
		s := start(t, receive.Config{ArrivalTimeout: 50 * time.Millisecond})
		for _, address := range []string{s.grpc, s.http} {
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			_, err = io.WriteString(conn, first)
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
			_, err = io.Copy(io.Discard, conn)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection stays open")
			require.NoError(t, conn.Close())
		}
	}
}

// TestArrivalDoesNotCount: the time that a body takes to arrive does not reduce the answer timeout.
func TestArrivalDoesNotCount(t *testing.T) {
	for _, sender := range senders {
		t.Run(sender.name, func(t *testing.T) {
			left := make(chan time.Duration, 1)
			s := start(t, receive.Config{AnswerTimeout: 2 * time.Second, Ingester: &ingester{
				do: func(ctx context.Context, _ wire.Signal, _ []byte) (string, error) {
					deadline, _ := ctx.Deadline()
					left <- time.Until(deadline)
					return "", ctx.Err()
				},
			}})
			r, w := io.Pipe()
			go func() {
				_, _ = io.WriteString(w, "{")
				time.Sleep(2200 * time.Millisecond)
				_, _ = io.WriteString(w, "}")
				_ = w.Close()
			}()
			res, err := sender.send(t, s, request{signal: wire.Logs, authorization: goodKey, body: r, size: 2})
			require.NoError(t, err)
			require.Equal(t, receive.Accepted, res.outcome, res.message)
			require.Positive(t, <-left)
		})
	}
}

func TestAnswerTimeout(t *testing.T) {
	block := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, cfg := range map[string]receive.Config{
		"ingester":     {Ingester: &ingester{do: func(ctx context.Context, _ wire.Signal, _ []byte) (string, error) { return "", block(ctx) }}},
		"authenticate": {Authenticate: func(ctx context.Context, _, _ string) (*assay.Principal, error) { return nil, block(ctx) }},
	} {
		for _, sender := range senders {
			t.Run(name+"/"+sender.name, func(t *testing.T) {
				cfg.AnswerTimeout = 50 * time.Millisecond
				s := start(t, cfg)
				res, err := sender.send(t, s, request{signal: wire.Logs, authorization: goodKey, body: strings.NewReader("{}"), size: 2})
				require.NoError(t, err)
				require.Equal(t, receive.Unavailable, res.outcome, res.message)
				require.True(t, res.retry)
			})
		}
	}
}

// TestSenderLeaves: the context of a request ends when its sender disconnects.
func TestSenderLeaves(t *testing.T) {
	for _, sender := range senders {
		t.Run(sender.name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			s := start(t, receive.Config{Ingester: &ingester{do: func(ctx context.Context, _ wire.Signal, _ []byte) (string, error) {
				leave()
				<-ctx.Done()
				return "", ctx.Err()
			}}})
			_, err := sender.send(t, s, request{signal: wire.Logs, authorization: goodKey, body: strings.NewReader("{}"), size: 2, ctx: ctx})
			require.ErrorIs(t, err, context.Canceled)
			require.Eventually(t, func() bool { return len(s.outcomes()) == 1 }, time.Minute, time.Millisecond)
			require.Equal(t, receive.Canceled, s.outcomes()[0])
		})
	}
}

func TestPanic(t *testing.T) {
	for _, sender := range senders {
		t.Run(sender.name, func(t *testing.T) {
			s := start(t, receive.Config{Ingester: &ingester{do: func(context.Context, wire.Signal, []byte) (string, error) { panic("test") }}})
			for range 2 {
				res, err := sender.send(t, s, request{signal: wire.Logs, authorization: goodKey, body: strings.NewReader("{}"), size: 2})
				require.NoError(t, err)
				require.Equal(t, receive.Failed, res.outcome)
				require.Equal(t, "internal error", res.message)
			}
		})
	}
}

// TestBackpressure: requests beyond the budget wait for earlier ones.
func TestBackpressure(t *testing.T) {
	for _, sender := range senders {
		t.Run(sender.name, func(t *testing.T) {
			entered, leave := make(chan struct{}, 100), make(chan struct{})
			s := start(t, receive.Config{
				MaxCompressed: 64 << 10, MaxUncompressed: 64 << 10, InFlightBytes: 3 * 64 << 10,
				Ingester: &ingester{do: func(context.Context, wire.Signal, []byte) (string, error) {
					entered <- struct{}{}
					<-leave
					return "", nil
				}},
			})
			var results sync.WaitGroup
			send := func() {
				res, err := sender.send(t, s, request{signal: wire.Logs, authorization: goodKey, body: strings.NewReader("{}"), size: 2})
				if err != nil || res.outcome != receive.Accepted {
					t.Errorf("%v %v", res, err)
				}
			}
			fit := 3
			if sender.json {
				fit = 2 // JSON needs a second buffer while it is transcoded
			}
			for range fit {
				results.Go(send)
				<-entered
			}
			results.Go(send)
			require.Eventually(t, func() bool { return s.Requests() == fit+1 }, time.Minute, time.Millisecond)
			require.Empty(t, entered)
			close(leave)
			results.Wait()
			require.Len(t, s.outcomes(), fit+1)
		})
	}
}

// TestTooManyRequests: two organizations use up the limit on requests. A request of a third one is served at once.
// The requests evicted for it are refused as retryable.
func TestTooManyRequests(t *testing.T) {
	const limit = 1024
	leave := make(chan struct{})
	var entered, gaveWay, failed atomic.Int64
	s := start(t, receive.Config{
		Authenticate: byOrganization, AnswerTimeout: time.Hour,
		Ingester: &ingester{do: func(ctx context.Context, _ wire.Signal, body []byte) (string, error) {
			if len(body) == 0 {
				return "", nil
			}
			entered.Add(1)
			select {
			case <-leave:
				return "", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}},
	})
	var all sync.WaitGroup
	// Each connection carries half of the streams that it may have, so that none waits for another.
	const streams = 16
	var clients []*http.Client
	fill := func(organization string, n int, total int64) {
		for i := range n {
			if i%streams == 0 {
				clients = append(clients, newClient(t, true))
			}
			c := clients[len(clients)-1]
			all.Go(func() {
				body := padded(100)
				res, err := sendGRPC(t, s, request{signal: wire.Logs, authorization: organization, client: c, body: bytes.NewReader(body), size: int64(len(body))})
				switch {
				case err == nil && res.outcome == receive.Unavailable && res.retry && res.message == "too much telemetry in flight":
					gaveWay.Add(1)
				case err != nil || res.outcome != receive.Accepted:
					failed.Add(1)
				}
			})
		}
		require.Eventually(t, func() bool { return entered.Load() == total }, time.Minute, time.Millisecond)
	}
	modest := func(served int64) {
		t.Helper()
		for i, sender := range senders {
			res, err := sender.send(t, s, request{signal: wire.Logs, authorization: fmt.Sprint("modest ", i), body: strings.NewReader(""), size: 0})
			require.NoError(t, err)
			if sender.json { // an empty body is not JSON
				require.Equal(t, receive.Invalid, res.outcome, res.message)
				continue
			}
			require.Equal(t, receive.Accepted, res.outcome, res.message)
		}
		require.Eventually(t, func() bool { return gaveWay.Load() >= served }, time.Minute, time.Millisecond)
	}
	fill("greedy", limit/2, limit/2)
	fill("greed", limit/2, limit)
	modest(1)
	require.LessOrEqual(t, gaveWay.Load(), int64(len(senders)))
	close(leave)
	all.Wait()
	require.Zero(t, failed.Load())
}

// TestSlowSendersGiveWay: senders of one organization fill the memory with bodies that stop arriving. A request of
// another organization is served at once, and the newest of the slow requests are refused as retryable.
func TestSlowSendersGiveWay(t *testing.T) {
	for _, slow := range senders {
		t.Run(slow.name, func(t *testing.T) {
			const bodies = 8
			s := start(t, receive.Config{
				MaxCompressed: 64 << 10, MaxUncompressed: 64 << 10, InFlightBytes: bodies * 64 << 10,
				Authenticate: byOrganization, ArrivalTimeout: time.Hour,
			})
			var all sync.WaitGroup
			var ends []io.Closer
			for i := range bodies {
				body := stalled(t, "{")
				ends = append(ends, body)
				all.Go(func() {
					_, _ = slow.send(t, s, request{signal: wire.Logs, authorization: "slow", body: body, size: 1000})
				})
				require.Eventually(t, func() bool { return s.BytesInFlight() == int64(i+1)*64<<10 }, time.Minute, time.Millisecond)
			}
			for _, sender := range senders {
				res, err := sender.send(t, s, request{signal: wire.Logs, authorization: "modest", body: strings.NewReader("{}"), size: 2})
				require.NoError(t, err)
				require.Equal(t, receive.Accepted, res.outcome, "%s: %s", sender.name, res.message)
			}
			require.Eventually(t, func() bool { return len(s.outcomes()) == len(senders)+2 }, time.Minute, time.Millisecond)
			for _, outcome := range s.outcomes() {
				require.Contains(t, []receive.Outcome{receive.Accepted, receive.Unavailable}, outcome)
			}
			require.Equal(t, bodies-2, s.Requests(), "JSON needs two buffers, and the others one")
			for _, end := range ends {
				require.NoError(t, end.Close())
			}
			all.Wait()
		})
	}
}

// byOrganization uses the credential as the organization id.
func byOrganization(_ context.Context, authorization, _ string) (*assay.Principal, error) {
	return &assay.Principal{OrganizationID: authorization, Scopes: []assay.Scope{assay.ScopeIngest}}, nil
}

// TestRateLimit: an organization above its rate limit is told to retry later.
func TestRateLimit(t *testing.T) {
	s := start(t, receive.Config{MaxRate: 1, MaxUncompressed: 1000, MaxCompressed: 1000})
	send := func(sender sender) result {
		t.Helper()
		body := padded(600)
		res, err := sender.send(t, s, request{signal: wire.Logs, authorization: goodKey, body: bytes.NewReader(body), size: int64(len(body))})
		require.NoError(t, err)
		return res
	}
	for range 2 {
		require.Equal(t, receive.Accepted, send(senders[0]).outcome)
	}
	for _, sender := range senders {
		res := send(sender)
		require.Equal(t, receive.RateLimited, res.outcome, sender.name)
		require.True(t, res.retry, sender.name)
	}
}

// TestRateOfFailures: requests that fail before they are evaluated count for the rate limit, with the bytes that they
// were received, decompressed and converted to.
func TestRateOfFailures(t *testing.T) {
	document := `{"resourceLogs":[` + strings.Repeat(" ", 1000)
	broken := gzipped(padded(1000))
	for name, r := range map[string]struct {
		body, contentType, encoding string
	}{
		"not JSON":              {document, "application/json", ""},
		"not JSON, in gzip":     {string(gzipped([]byte(document))), "application/json", "gzip"},
		"gzip is cut off":       {string(broken[:len(broken)-8]), "application/x-protobuf", "gzip"},
		"the body is too large": {document, "application/x-protobuf", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, receive.Config{MaxRate: 1, MaxUncompressed: 1000 + 1000, MaxCompressed: 2000})
			limited := false
			for range 4 {
				q := request{signal: wire.Logs, authorization: goodKey, encoding: r.encoding, size: int64(len(r.body)), body: strings.NewReader(r.body)}
				if name == "the body is too large" {
					q.size, q.body = -1, io.MultiReader(q.body, strings.NewReader(document))
				}
				res, err := sendHTTP(t, s, q, r.contentType)
				require.NoError(t, err)
				require.NotEqual(t, receive.Accepted, res.outcome)
				limited = limited || res.outcome == receive.RateLimited
			}
			require.True(t, limited)
		})
	}
}

// TestBombsAreBounded: decompression bombs at the default limits on all transports keep the heap far below a
// gigabyte.
func TestBombsAreBounded(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // each processor keeps free memory
	s := start(t, receive.Config{Ingester: &ingester{do: func(context.Context, wire.Signal, []byte) (string, error) { return "", nil }}})
	bombs := map[string][]byte{}
	func() {
		b := padded(64<<20 + 1)
		bombs["gzip"], bombs["zstd"] = gzipped(b), zstandard(b)
		bombs["zstd "] = zstandardSized(b)
	}()
	runtime.GC()

	var peak uint64
	stop, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		var m runtime.MemStats
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapInuse)
			}
		}
	}()
	var all sync.WaitGroup
	var refused atomic.Int64
	for i := range 51 {
		encoding := []string{"gzip", "zstd", "zstd "}[i%3]
		sender := senders[i%len(senders)]
		all.Go(func() {
			body := bombs[encoding]
			res, err := sender.send(t, s, request{
				signal: wire.Logs, authorization: goodKey, encoding: strings.TrimSpace(encoding), body: bytes.NewReader(body), size: int64(len(body)),
			})
			switch {
			case err != nil:
				t.Error(err)
			case res.outcome == receive.TooLarge:
				refused.Add(1)
			case res.outcome != receive.Unavailable:
				t.Errorf("%v", res)
			}
		})
	}
	all.Wait()
	close(stop)
	<-sampled
	t.Logf("%d of 51 refused as too large, the others for lack of memory; heap in use up to %d MiB", refused.Load(), peak>>20)
	require.Positive(t, refused.Load())
	require.Less(t, peak, uint64(850<<20))
}

// TestSlowSendersHoldLittle: a client that announces a large body and sends little does not take memory from others.
func TestSlowSendersHoldLittle(t *testing.T) {
	s := start(t, receive.Config{})
	const slow = 40
	var all sync.WaitGroup
	var bodies []io.Closer
	for i := range slow {
		body := stalled(t, "{")
		bodies = append(bodies, body)
		all.Go(func() {
			_, _ = senders[i%2].send(t, s, request{signal: wire.Logs, authorization: goodKey, body: body, size: 64 << 20})
		})
	}
	require.Eventually(t, func() bool { return s.Requests() == slow }, time.Minute, time.Millisecond)
	require.LessOrEqual(t, s.BytesInFlight(), int64(slow*64<<10))
	res, err := sendGRPC(t, s, request{signal: wire.Logs, authorization: goodKey, body: bytes.NewReader(padded(64 << 20)), size: 64 << 20})
	require.NoError(t, err)
	require.Equal(t, receive.Accepted, res.outcome, res.message)
	for _, body := range bodies {
		require.NoError(t, body.Close())
	}
	all.Wait()
}

func TestKeepAlive(t *testing.T) {
	s := start(t, receive.Config{ArrivalTimeout: 2 * time.Second})
	conn, err := net.Dial("tcp", s.http)
	require.NoError(t, err)
	defer conn.Close()
	answers := bufio.NewReader(conn)
	// Send more requests on one connection than fit into ArrivalTimeout.
	for range 3 {
		_, err = io.WriteString(conn, "POST /v1/logs HTTP/1.1\r\nHost: x\r\nAuthorization: "+goodKey+"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		require.NoError(t, err)
		response, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		require.Equal(t, 200, response.StatusCode)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		time.Sleep(time.Second)
	}
}

// TestTooManyConnections: idle connections do not keep clients out, and no request is interrupted for an idle
// connection.
func TestTooManyConnections(t *testing.T) {
	for _, sender := range senders {
		t.Run(sender.name, func(t *testing.T) {
			const most, idle = 3, 9
			var s *server
			transport := receive.HTTP
			crowd := func() (conns []net.Conn) {
				address := s.http
				if transport == receive.GRPC {
					address = s.grpc
				}
				_, before, _ := s.Connections(transport)
				for range idle {
					c, err := net.Dial("tcp", address)
					require.NoError(t, err)
					t.Cleanup(func() { _ = c.Close() })
					conns = append(conns, c)
				}
				require.Eventually(t, func() bool {
					open, closed, _ := s.Connections(transport)
					return open == most && closed-before >= idle-most
				}, time.Minute, time.Millisecond)
				return conns
			}
			ing := &ingester{do: func(context.Context, wire.Signal, []byte) (string, error) {
				crowd()
				return "", nil
			}}
			s = start(t, receive.Config{MaxConnections: most, Ingester: ing})
			if sender.name == "grpc" {
				transport = receive.GRPC
			}
			first := crowd()[0]
			require.NoError(t, first.SetReadDeadline(time.Now().Add(time.Minute)))
			_, err := io.Copy(io.Discard, first)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it was closed")
			res, err := sender.send(t, s, request{signal: wire.Logs, authorization: goodKey, body: strings.NewReader("{}"), size: 2})
			require.NoError(t, err)
			require.Equal(t, receive.Accepted, res.outcome, res.message)
			_, _, refused := s.Connections(transport)
			require.Zero(t, refused)
		})
	}
}

// TestConnectionIsInUseUntilAnswered: a request refused before its body has arrived is answered. New connections
// replace idle ones.
func TestConnectionIsInUseUntilAnswered(t *testing.T) {
	s := start(t, receive.Config{MaxConnections: 2})
	dial := func(contentType string, size int) (net.Conn, func() (*http.Response, error)) {
		c, err := net.Dial("tcp", s.http)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		_, err = fmt.Fprintf(c, "POST /v1/logs HTTP/1.1\r\nHost: a\r\nAuthorization: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n{}", goodKey, contentType, size)
		require.NoError(t, err)
		r := bufio.NewReader(c)
		return c, func() (*http.Response, error) { return http.ReadResponse(r, nil) }
	}
	const size = 1000
	refused, response := dial("text/plain", size)
	require.Eventually(t, func() bool { return len(s.outcomes()) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, receive.Unsupported, s.outcomes()[0])
	_, ofIdle := dial("application/json", 2)
	res, err := ofIdle()
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	other, err := net.Dial("tcp", s.http)
	require.NoError(t, err)
	defer other.Close()
	_, err = ofIdle()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = refused.Write(bytes.Repeat([]byte{' '}, size-2))
	require.NoError(t, err)
	res, err = response()
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusUnsupportedMediaType, res.StatusCode)
}
