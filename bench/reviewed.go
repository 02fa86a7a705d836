// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/assaytest"
)

const (
	reviewedFiles  = 320       // of the hostile repository
	reviewedBytes  = 500 << 10 // of each file: a review reads at most 512 KiB
	reviewedTarget = 0.95      // of the throughput without a review

	readers       = 4 // clients that list services
	compareRounds = 4
	compareSpan   = 6 * time.Second // of each half of a round
)

// hostileSources are the texts of files that cost a review the most: deep nesting, unclosed brackets, and findings
// everywhere. Each is repeated up to the size of a file, between a header and a footer.
var hostileSources = []struct{ ext, header, repeated, footer string }{
	{"go", "package p\n\nvar x = ", "(", "1"},
	{"go", "package p\n\nimport (\n\t\"context\"\n\n\t\"go.opentelemetry.io/otel\"\n\t\"go.opentelemetry.io/otel/attribute\"\n)\n\nfunc f(ctx context.Context, id string) {\n", "\tctx, span := otel.Tracer(id).Start(ctx, \"a \"+id); span.SetAttributes(attribute.String(\"user.email\", id))\n", "}\n"},
	{"js", "const { trace } = require('@opentelemetry/api');\nx = ", "`${", "1"},
	{"ts", "import { trace } from '@opentelemetry/api';\n", "trace.getTracer(id).startActiveSpan(`a ${id}`, (span) => { span.setAttribute('user.email', id);\n", ""},
	{"py", "from opentelemetry import trace\nx = ", "[{1: (", "1"},
	{"py", "from opentelemetry import trace\ntracer = trace.get_tracer(\"x\")\n", "with tracer.start_as_current_span(f\"a {id}\") as span: span.set_attribute(\"user.email\", id)\n", ""},
	{"java", "class A { Object x = ", "new A<B<", "1; }"},
	{"yaml", "receivers:\n", "  - [*a, &a {", ""},
}

// writeHostileRepository writes the files of the hostile repository.
func writeHostileRepository(dir string) error {
	for n := range reviewedFiles {
		s := hostileSources[n%len(hostileSources)]
		text := fmt.Sprintf("%s%s%s", s.header, strings.Repeat(s.repeated, (reviewedBytes-len(s.header)-len(s.footer))/len(s.repeated)), s.footer)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d.%s", n, s.ext)), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// runReviewed measures another operation while the agent reviews a hostile repository again and again.
func runReviewed(ctx context.Context, s *settings, emit func(*table) error) (err error) {
	code, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(code)
	if err := writeHostileRepository(code); err != nil {
		return err
	}
	srv, err := startAssay(ctx, s.assay, "--agent-local-root", code)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	client := &http.Client{Timeout: assaytest.Limit, Transport: &http.Transport{MaxIdleConnsPerHost: readers}}
	defer client.CloseIdleConnections()
	a := &agentClient{client: client, root: srv.REST + "/v1/agent", key: srv.key}
	var made struct {
		Repositories []struct {
			ID string `json:"id"`
		} `json:"repositories"`
	}
	if err := a.call(ctx, http.MethodPost, "/onboarding/installations", map[string]any{"kind": "local", "url": code}, &made); err != nil {
		return err
	}
	repository := made.Repositories[0].ID
	if err := a.call(ctx, http.MethodPatch, "/repositories/"+repository, map[string]any{"is_active": true}, nil); err != nil {
		return err
	}
	t := &table{
		Title: fmt.Sprintf("GET /v1/services by %d clients while the agent reviews %d hostile files of %d KiB", readers, reviewedFiles, reviewedBytes>>10),
	}
	var used time.Duration // by reviews
	ratio, err := t.compare(ctx, client, srv, func() (func() error, error) {
		stop, err := a.review(ctx, repository)
		if err != nil {
			return nil, err
		}
		before, err := srv.children()
		return func() error {
			after, err := srv.children()
			used += after - before
			return errors.Join(err, stop())
		}, err
	})
	if err != nil {
		return srv.Explain(err)
	}
	t.Notes = append(t.Notes, fmt.Sprintf("the reviews used %.1f s of processor time beside the clients", used.Seconds()))
	t.Targets = []target{atLeast("throughput during a review, times that without,", reviewedTarget, ratio)}
	return emit(t)
}

// compare lists services from a few clients, in alternating rounds with and without a review. start starts the review
// and returns a function that ends it. compare adds a row for each kind of round, and returns the throughput during a
// review divided by that without.
func (t *table) compare(ctx context.Context, client *http.Client, srv *server, start func() (end func() error, err error)) (ratio float64, err error) {
	list := func() (answers, error) {
		return callFrom(readers, compareSpan, func(int) error {
			_, err := assaytest.Get(ctx, client, srv.REST+"/v1/services", srv.key)
			return err
		})
	}
	var alone, beside answers
	var ratios []float64
	for range compareRounds {
		if err := srv.calm(ctx); err != nil {
			return 0, err
		}
		calm, err := list()
		if err != nil {
			return 0, err
		}
		end, err := start()
		if err != nil {
			return 0, err
		}
		during, err := list()
		if err = errors.Join(err, end()); err != nil {
			return 0, err
		}
		ratios = append(ratios, during.rate()/calm.rate())
		alone.add(calm)
		beside.add(during)
	}
	t.Columns = []string{"requests/s", "p50 ms", "p99 ms"}
	t.Rows = []row{{"no review", alone.values()}, {"a review runs", beside.values()}}
	t.Notes = append(t.Notes, fmt.Sprintf("%d rounds of %s each way, by turns", compareRounds, compareSpan))
	return median(ratios), nil
}

// children returns the processor time of the processes that the server has started.
func (s *server) children() (time.Duration, error) {
	all, err := assaytest.TreeCPU(s.PID())
	if err != nil {
		return 0, err
	}
	own, err := s.CPU()
	return all - own, err
}

// agentClient calls the operations of the agent.
type agentClient struct {
	client    *http.Client
	root, key string
}

func (a *agentClient) call(ctx context.Context, method, path string, body map[string]any, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := assaytest.Do(ctx, a.client, method, a.root+path, a.key, text, "Content-Type", "application/json")
	if err != nil {
		return err
	}
	if r.Status != http.StatusOK {
		return fmt.Errorf("%s %s: status %d: %s", method, path, r.Status, r.Body)
	}
	if into == nil {
		return nil
	}
	var answer struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(r.Body, &answer); err != nil {
		return err
	}
	return json.Unmarshal(answer.Data, into)
}

// review reviews a repository again and again and returns once the first review scans it. stop cancels the last review
// and waits for its end.
func (a *agentClient) review(ctx context.Context, repository string) (stop func() error, err error) {
	schedule := func() (id string, err error) {
		var scheduled struct {
			ID string `json:"executionId"`
		}
		if err := a.call(ctx, http.MethodPost, "/codebase/review/execute", map[string]any{"repo_id": repository}, &scheduled); err != nil {
			return "", err
		}
		return scheduled.ID, nil
	}
	id, err := schedule()
	if err != nil {
		return nil, err
	}
	if err := a.await(ctx, id, "scan", "running"); err != nil {
		return nil, err
	}
	reviewing, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		for {
			err := a.await(reviewing, id, "", "completed")
			if err == nil {
				id, err = schedule()
			}
			switch {
			case reviewing.Err() != nil:
				ended <- nil
				return
			case err != nil:
				ended <- err
				return
			}
		}
	}()
	return func() error {
		end()
		if err := <-ended; err != nil {
			return err
		}
		if err := a.call(ctx, http.MethodPost, "/executions/"+id+"/cancel", map[string]any{}, nil); err != nil {
			return err
		}
		return a.await(ctx, id, "", "completed", "cancelled")
	}, nil
}

// await waits until a run has one of statuses and, unless it is "", a phase.
func (a *agentClient) await(ctx context.Context, id, phase string, statuses ...string) error {
	const often = 100 * time.Millisecond // asking is work for the server, too
	return assaytest.Await(ctx, assaytest.Limit, often, func() error {
		var detail struct {
			Execution struct{ Status, CurrentPhase, Error string }
		}
		if err := a.call(ctx, http.MethodGet, "/executions/"+id, nil, &detail); err != nil {
			return err
		}
		if e := detail.Execution; !slices.Contains(statuses, e.Status) || phase != "" && e.CurrentPhase != phase {
			return fmt.Errorf("the run is %s in the phase %s: %s", e.Status, e.CurrentPhase, e.Error)
		}
		return nil
	})
}
