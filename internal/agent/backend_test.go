// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

const token = "signed.for.test"

// rawRequest is a request as received, byte for byte.
type rawRequest struct {
	line string // request line
	head string // all of it
	body string
}

// header returns the field's value, "" for none.
func (r *rawRequest) header(name string) string {
	h, _ := textproto.NewReader(bufio.NewReader(strings.NewReader(r.head + "\r\n"))).ReadMIMEHeader()
	return h.Get(name)
}

// peer is one connection of a caller.
type peer struct {
	net.Conn
	t   *rawBackend
	num int // of the request on this connection, from 1
}

// say writes a text. A caller that has gone is no failure.
func (p *peer) say(s string) bool {
	_, err := io.WriteString(p, s)
	return err == nil
}

// hang reports to the test that the script hangs, and then blocks until the caller disconnects.
func (p *peer) hang() bool {
	p.t.hangs <- struct{}{}
	_, _ = io.Copy(io.Discard, p)
	return false
}

// rawBackend is a backend on plain sockets. Its script answers one request and
// says whether the connection lives on.
type rawBackend struct {
	url   string
	hangs chan struct{}

	mu       sync.Mutex
	requests []*rawRequest
}

func (b *rawBackend) all() []*rawRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*rawRequest(nil), b.requests...)
}

func (b *rawBackend) last(t testing.TB) *rawRequest {
	t.Helper()
	all := b.all()
	require.NotEmpty(t, all)
	return all[len(all)-1]
}

func newRawBackend(t testing.TB, script func(p *peer, r *rawRequest) bool) *rawBackend {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &rawBackend{url: "http://" + l.Addr().String(), hangs: make(chan struct{}, 64)}
	var running sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			running.Go(func() {
				defer func() {
					conn.Close()
					mu.Lock()
					delete(open, conn)
					mu.Unlock()
				}()
				in := bufio.NewReader(conn)
				for n := 1; ; n++ {
					r := readRaw(in)
					if r == nil {
						return
					}
					b.mu.Lock()
					b.requests = append(b.requests, r)
					b.mu.Unlock()
					if !script(&peer{conn, b, n}, r) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return b
}

func readRaw(in *bufio.Reader) *rawRequest {
	var head strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil
		}
		if line == "\r\n" {
			break
		}
		head.WriteString(line)
	}
	r := &rawRequest{}
	r.line, r.head, _ = strings.Cut(head.String(), "\r\n")
	n, _ := strconv.Atoi(r.header("Content-Length"))
	body := make([]byte, n)
	if _, err := io.ReadFull(in, body); err != nil {
		return nil
	}
	r.body = string(body)
	return r
}

// answers returns a script that gives one answer to all.
func answers(response string) func(*peer, *rawRequest) bool {
	return func(p *peer, _ *rawRequest) bool { return p.say(response) }
}

// rawResponse makes one with the right length.
func rawResponse(status int, body string, fields ...string) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 " + strconv.Itoa(status) + " x\r\n")
	for i := 0; i < len(fields); i += 2 {
		b.WriteString(fields[i] + ": " + fields[i+1] + "\r\n")
	}
	if status != http.StatusNoContent && status != http.StatusNotModified {
		b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	b.WriteString("\r\n" + body)
	return b.String()
}

// fixture is a gateway whose deadlines pass when the test says so.
type fixture struct {
	*Gateway
	log strings.Builder

	mu       sync.Mutex
	now      time.Time
	events   []Event
	timers   []*fakeTimer
	asked    []time.Duration // of timers, in order
	loggerMu sync.Mutex
}

type fakeTimer struct {
	f    *fixture
	fire func()
}

func (t *fakeTimer) Reset(d time.Duration) bool {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.f.asked = append(t.f.asked, d)
	return true
}

func (t *fakeTimer) Stop() bool { return true }

// expire ends the phase that each call is in.
func (f *fixture) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.timers {
		t.fire()
	}
}

func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// event returns the last one.
func (f *fixture) event(t testing.TB) Event {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.NotEmpty(t, f.events)
	return f.events[len(f.events)-1]
}

// Write takes the log.
func (f *fixture) Write(b []byte) (int, error) {
	f.loggerMu.Lock()
	defer f.loggerMu.Unlock()
	return f.log.Write(b)
}

func newFixture(t testing.TB, url string, change ...func(*Config)) *fixture {
	f := &fixture{now: time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)}
	cfg := Config{
		URL:            url,
		Sign:           func(context.Context, *assay.Principal) (string, error) { return token, nil },
		ConnectTimeout: time.Minute,
		Now: func() time.Time {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.now
		},
		Observe: func(e Event) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events = append(f.events, e)
		},
		Logger: slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&cfg)
	}
	g, err := New(cfg)
	require.NoError(t, err)
	g.after = func(d time.Duration, fire func()) timer {
		f.mu.Lock()
		defer f.mu.Unlock()
		x := &fakeTimer{f, fire}
		f.timers = append(f.timers, x)
		f.asked = append(f.asked, d)
		return x
	}
	f.Gateway = g
	t.Cleanup(g.Close)
	return f
}

// get makes a call such as most tests need.
func get(path string) *assay.AgentCall {
	return &assay.AgentCall{
		Operation: "list-findings", Method: http.MethodGet, Path: path,
		TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
		Caller:  &assay.Principal{OrganizationID: "org-1", Subject: "key:abc123"},
		Header:  map[string][]string{},
	}
}

func post(path, body string) *assay.AgentCall {
	c := get(path)
	c.Operation, c.Method, c.Body = "execute-codebase-fix", http.MethodPost, []byte(body)
	return c
}
