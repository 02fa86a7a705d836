// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	forwardedPath   = "/executions/exe-1/agent-events?afterSeq=17"
	forwardedEvents = 20              // in an answer
	forwardSpan     = time.Second / 2 // of one subject in one round
	forwardTarget   = 1.25            // times the p50 of a bare reverse proxy

	heldClients = 1000 // that wait for the backend
	heldRounds  = 4
	heldSpan    = 6 * time.Second // of each half of a round; --agent-timeout is five times as long
	heldReaders = 4               // clients that list services
	heldTarget  = 0.9             // of the throughput when nobody waits
)

// runGateway measures what the gateway to the agent backend costs those who use it,
// and those who do not while the backend hangs.
func runGateway(ctx context.Context, s *settings, emit func(*table) error) error {
	if err := measureForward(ctx, s, emit); err != nil {
		return err
	}
	return measureHeld(ctx, s, emit)
}

// The subjects, in the order of the table.
const (
	noProxy = iota
	bareProxy
	throughGateway
	forwardSubjects
)

// measureForward sends the same request through the gateway, through a bare reverse
// proxy, and to the backend itself. Each of the three is a process.
func measureForward(ctx context.Context, s *settings, emit func(*table) error) (err error) {
	dir, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	body, err := eventsBody()
	if err != nil {
		return err
	}
	backend, err := startBare(ctx, dir, body)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.stop()) }()
	proxy, err := startBareProxy(ctx, "http://"+backend.rest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.stop()) }()
	srv, err := startAssay(ctx, s.assay, dir, "--agent-backend-url", "http://"+backend.rest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()

	subjects := [forwardSubjects]struct {
		name string
		url  string
	}{
		noProxy:        {"no proxy", "http://" + backend.rest + forwardedPath},
		bareProxy:      {"httputil.ReverseProxy", "http://" + proxy.rest + forwardedPath},
		throughGateway: {"assay: authenticates, signs, checks the answer", "http://" + srv.rest + "/api/v1/agent" + forwardedPath},
	}
	if err := sameData(ctx, subjects[throughGateway].url, srv.key, body); err != nil {
		return srv.explain(err)
	}
	for _, clients := range []int{1, 16} {
		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: clients}}
		defer client.CloseIdleConnections()
		var all [forwardSubjects]answers
		var medians, rates [forwardSubjects][]float64
		for round := range s.rounds + 1 {
			for i := range subjects {
				i = (i + round) % forwardSubjects
				runtime.GC()
				got, err := repeat(ctx, client, subjects[i].url, srv.key, http.StatusOK, clients, forwardSpan)
				if err != nil {
					return srv.explain(fmt.Errorf("%s: %w", subjects[i].name, err))
				}
				if round == 0 { // it warms up
					continue
				}
				all[i].add(got)
				medians[i], rates[i] = append(medians[i], quantile(got.times, 0.5)), append(rates[i], got.rate())
			}
		}
		adds := make([]float64, s.rounds)
		for round := range adds {
			adds[round] = medians[throughGateway][round] - medians[bareProxy][round]
		}
		t := &table{
			Title: fmt.Sprintf("GET /v1/agent%s, %.1f KB, over loopback, clients: %d, rounds: %d",
				forwardedPath, float64(len(body))/1e3, clients, s.rounds),
			Columns: []string{"requests/s", "p50 ms", "p99 ms"},
			Notes: []string{
				"each side and the backend are processes; the backend answers with the same bytes whatever the token",
				fmt.Sprintf("to the p50 of the bare proxy assay adds %.2f ms; its requests/s are %.2f of those of the bare proxy; all are medians of the rounds",
					median(adds), paired(rates[throughGateway], rates[bareProxy]).median()),
			},
			Targets: []target{atMost("p50 through the gateway, times that through the bare proxy,",
				forwardTarget, paired(medians[throughGateway], medians[bareProxy]).median())},
		}
		for i, subject := range subjects {
			t.Rows = append(t.Rows, row{subject.name, all[i].values()})
		}
		if err := emit(t); err != nil {
			return err
		}
	}
	return nil
}

// eventsBody returns a page of events as a backend writes it.
func eventsBody() ([]byte, error) {
	type event struct {
		Seq         int    `json:"seq"`
		ExecutionID string `json:"execution_id"`
		Type        string `json:"type"`
		Phase       string `json:"phase"`
		Message     string `json:"message"`
		CreatedAt   string `json:"created_at"`
	}
	events := make([]event, forwardedEvents)
	for i := range events {
		events[i] = event{18 + i, "exe-1", "phase.progress", "analyze", fmt.Sprintf("looked at %d files", 10*i), "2026-01-02T03:04:05Z"}
	}
	return json.Marshal(map[string]any{"data": events, "meta": map[string]int{"total": 17 + len(events)}})
}

// sameData tells whether the answer at a URL has the data of body.
func sameData(ctx context.Context, url, key string, body []byte) error {
	var got bytes.Buffer
	if err := get(ctx, url, key, &got); err != nil {
		return err
	}
	var is, should struct {
		Data json.RawMessage `json:"data"`
	}
	if err := errors.Join(json.Unmarshal(got.Bytes(), &is), json.Unmarshal(body, &should)); err != nil {
		return err
	}
	if !bytes.Equal(is.Data, should.Data) {
		return fmt.Errorf("GET %s: not the data of the backend", url)
	}
	return nil
}

// startBareProxy starts this program once more, as a proxy before a backend.
func startBareProxy(ctx context.Context, backend string) (*server, error) {
	return startSelf(ctx, "bare proxy", "-bare-proxy", backend)
}

// newBareProxy returns a handler that passes every request on.
func newBareProxy(backend string) (*httputil.ReverseProxy, error) {
	u, err := url.Parse(backend)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = transport.MaxIdleConns // its default of 2 would cost it connections
	return &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}, nil
}

// measureHeld measures another operation while many clients wait for a backend that
// takes every connection and never answers.
func measureHeld(ctx context.Context, s *settings, emit func(*table) error) (err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	backend := &counted{Listener: l}
	defer backend.Close()
	go swallow(backend)

	dir, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	srv, err := startAssay(ctx, s.assay, dir,
		"--agent-backend-url", "http://"+l.Addr().String(), "--agent-timeout", (5 * heldSpan).String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()

	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: heldReaders}}
	defer client.CloseIdleConnections()
	root := "http://" + srv.rest + "/api/v1"
	list := func() (answers, error) {
		if err := srv.calm(ctx); err != nil {
			return answers{}, err
		}
		return repeat(ctx, client, root+"/services", srv.key, http.StatusOK, heldReaders, heldSpan)
	}
	var alone, beside answers
	var ratio []float64
	for range heldRounds {
		calm, err := list()
		if err != nil {
			return srv.explain(err)
		}
		release, err := hold(ctx, root+"/agent"+forwardedPath, srv.key, backend)
		if err != nil {
			return srv.explain(err)
		}
		during, err := list()
		if err = errors.Join(err, release()); err != nil {
			return srv.explain(err)
		}
		ratio = append(ratio, during.rate()/calm.rate())
		alone.add(calm)
		beside.add(during)
	}
	return emit(&table{
		Title: fmt.Sprintf("GET /v1/services by %d clients while the agent backend hangs and %s clients wait for it",
			heldReaders, thousands(heldClients)),
		Columns: []string{"requests/s", "p50 ms", "p99 ms"},
		Rows: []row{
			{"nobody waits", alone.values()},
			{thousands(heldClients) + " wait", beside.values()},
		},
		Notes:   []string{fmt.Sprintf("%d rounds of %s each way, by turns", heldRounds, heldSpan)},
		Targets: []target{atLeast("throughput while they wait, times that without,", heldTarget, median(ratio))},
	})
}

// hold has heldClients ask for url, and returns once each has come to the backend.
// release ends them and fails if one did not wait until then.
func hold(ctx context.Context, url, key string, backend *counted) (release func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{}}
	before := backend.n.Load()
	var clients sync.WaitGroup
	ended := make(chan error, heldClients)
	for range heldClients {
		clients.Go(func() {
			_, status, err := timeStatus(ctx, client, url, key)
			if ctx.Err() == nil {
				ended <- cmp.Or(err, fmt.Errorf("GET %s: status %d from a backend that hangs", url, status))
			}
		})
	}
	release = func() error {
		cancel()
		clients.Wait()
		close(ended)
		return <-ended
	}
	for late := time.Now().Add(startTimeout); backend.n.Load()-before < heldClients && len(ended) == 0; {
		if time.Now().After(late) || ctx.Err() != nil {
			err := fmt.Errorf("%d of %d requests came to the backend", backend.n.Load()-before, heldClients)
			return nil, errors.Join(err, release())
		}
		<-time.After(pollInterval)
	}
	return release, nil
}

// counted is a listener that knows how many connections it has taken.
type counted struct {
	net.Listener
	n atomic.Int64
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.n.Add(1)
	}
	return c, err
}
