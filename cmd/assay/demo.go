// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"assay"
	"assay/internal/demo"
	"assay/internal/lists"
	"assay/internal/report"
	"assay/internal/rules/catalog"
)

type demoCmd struct {
	HTTPAddress     string        `name:"http-address" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of the REST API and the dashboard (${default}; port 0 selects a free port)."`
	OTLPGRPCAddress string        `name:"otlp-grpc-address" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of OTLP/gRPC (${default})."`
	OTLPHTTPAddress string        `name:"otlp-http-address" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of OTLP/HTTP (${default})."`
	For             time.Duration `help:"Exit after this duration. Default: run until interrupted."`
	LogLevel        string        `default:"warn" enum:"debug,info,warn,error" help:"Minimum log level: ${enum} (${default})."`
}

// Intervals that are shorter than a server's, so that scores appear within the demo.
const (
	demoTraceIdle     = 3 * time.Second
	demoScoreInterval = time.Second
	demoRefresh       = time.Second // between updates of the table
	demoReview        = 15 * time.Second
)

// config returns the configuration of the embedded server.
func (c *demoCmd) config() (serverConfig, error) {
	cfg, err := defaultConfig()
	if err != nil {
		return cfg, err
	}
	cfg.HTTPAddress, cfg.OTLPGRPCAddress, cfg.OTLPHTTPAddress = c.HTTPAddress, c.OTLPGRPCAddress, c.OTLPHTTPAddress
	cfg.TraceIdle, cfg.ScoreInterval, cfg.LogLevel = demoTraceIdle, demoScoreInterval, c.LogLevel
	return cfg, nil
}

func (c *demoCmd) problems() []error {
	cfg, err := c.config()
	if err != nil {
		return []error{err}
	}
	ck := &check{problems: cfg.problems()}
	ck.that(c.For >= 0, "--for: %v is negative", c.For)
	return ck.problems
}

// Run starts a server on a temporary store, and simulated services that send to it.
func (c *demoCmd) Run(e *environment) (err error) {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(e.ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if cfg.DataDir, err = os.MkdirTemp("", "assay-demo-"); err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.DataDir)) }()

	repositories := filepath.Join(cfg.DataDir, "repositories")
	if err := demo.WriteRepositories(ctx, repositories); err != nil {
		return err
	}
	cfg.AgentLocalRoot = []string{repositories}

	own, err := startTelemetry(e, &cfg)
	if err != nil {
		return err
	}
	s := newServer(cfg, own)
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.connectDemo(ctx, repositories); err != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.ShutdownTimeout)
		defer cancel()
		return errors.Join(err, s.shutdown(end))
	}
	if c.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.For)
		defer cancel()
	}
	sendCtx, stopSending := context.WithCancel(ctx)
	defer stopSending()
	sent := make(chan error, 1)
	go func() {
		sent <- demo.Run(sendCtx, demo.Config{GRPCAddress: s.grpcAddr(), HTTPAddress: s.otlpHTTPAddr(), Key: s.createdKey, Logger: s.logger})
	}()
	b := &board{e: e, s: s, shown: map[string]string{}}
	b.welcome()
	failure := b.watch(ctx)

	stop() // the next signal has its default effect
	stopSending()
	failure = errors.Join(failure, <-sent)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.ShutdownTimeout)
	defer cancel()
	if err := s.shutdown(end); err != nil {
		return errors.Join(failure, fmt.Errorf("shut down: %w", err))
	}
	e.print("\nThe demo has ended and its data is removed.\n")
	return failure
}

// callDemo calls an operation of the agent for the demo's organization.
func (s *server) callDemo(ctx context.Context, operation, path, body string, answer any) error {
	organization, err := s.store.FindOrganizationByName(ctx, firstOrganization)
	if err != nil {
		return err
	}
	result, err := s.gateway.Forward(ctx, &assay.AgentCall{
		Operation: operation, Method: http.MethodPost, Path: path, Body: []byte(body),
		Header: map[string][]string{"Content-Type": {"application/json"}},
		Caller: &assay.Principal{OrganizationID: organization.ID, Subject: "demo", User: true, Scopes: []assay.Scope{assay.ScopeAgent}},
	})
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(result.Data, answer)
}

// connectDemo connects and activates the repositories of a directory, and reviews them until ctx ends: insights that
// appear meanwhile are joined to the code.
func (s *server) connectDemo(ctx context.Context, dir string) error {
	body, err := json.Marshal(map[string]string{"kind": "local", "url": dir})
	if err != nil {
		return err
	}
	var made struct {
		Repositories []struct {
			ID string `json:"id"`
		} `json:"repositories"`
	}
	if err := s.callDemo(ctx, "create-agent-installation", "/onboarding/installations", string(body), &made); err != nil {
		return fmt.Errorf("connect the repositories: %w", err)
	}
	var ids []string
	for _, r := range made.Repositories {
		ids = append(ids, r.ID)
	}
	if body, err = json.Marshal(map[string][]string{"repository_ids": ids}); err != nil {
		return err
	}
	if err := s.callDemo(ctx, "activate-onboarding-repositories", "/onboarding/repos", string(body), nil); err != nil {
		return fmt.Errorf("activate the repositories: %w", err)
	}
	s.loops.Go(func() {
		ticker := time.NewTicker(demoReview)
		defer ticker.Stop()
		for {
			for _, id := range ids {
				if err := s.callDemo(ctx, "execute-codebase-review", "/codebase/review/execute", `{"repo_id":"`+id+`"}`, nil); err != nil && ctx.Err() == nil {
					s.logger.WarnContext(ctx, "failed to review a repository", "error", err)
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return nil
}

// board shows the scores of the demo's services.
type board struct {
	e     *environment
	s     *server
	table string            // as drawn on a terminal
	shown map[string]string // last line by service, if not on a terminal
}

// welcome prints the URLs and example commands. It is the only place that prints the key.
func (b *board) welcome() {
	opt := b.e.textOptions(b.e.stdout)
	services := lists.Map(demo.Services(), func(s demo.Service) string { return fmt.Sprintf("- `%s`: %s", s.Name, s.About) })
	var out bytes.Buffer
	_ = report.Markdown(&out, "# assay demo\n\n"+
		"A small shop of "+strconv.Itoa(len(services))+" simulated services sends OTLP over gRPC and HTTP to a server that keeps its data in a temporary directory. All names and data are invented.\n\n"+
		strings.Join(services, "\n")+"\n", opt)
	key := string(b.s.createdKey)
	fmt.Fprintf(&out, "\nDashboard  %s (sign in with the API key)\nREST API   %s, readable at %s/docs\nOTLP       grpc %s, http %s\nAPI key    %s\n", b.s.dashboardURL(), b.s.restURL(), b.s.restURL(), b.s.grpcAddr(), b.s.otlpHTTPAddr(), key)
	fmt.Fprintf(&out, "Code       repositories of some services, reviewed by the agent, in %s\n", b.s.cfg.AgentLocalRoot[0])
	fmt.Fprintf(&out, "\nTry, in another terminal:\n\n")
	fmt.Fprintf(&out, "  curl -s -H 'Authorization: Bearer %s' %s/v1/services\n", key, b.s.restURL())
	fmt.Fprintf(&out, "  curl -s -H 'Authorization: Bearer %s' '%s/v1/insights?impact=Critical'\n", key, b.s.restURL())
	fmt.Fprintf(&out, "  curl -s -H 'Authorization: Bearer %s' %s/v1/agent/repositories\n", key, b.s.restURL())
	fmt.Fprintf(&out, "  %s insight list --data-dir %s\n", program(), b.s.cfg.DataDir)
	fmt.Fprintf(&out, "\nCtrl-C ends the demo.\n\n")
	b.e.print(out.String())
}

// program returns the name of the program for example commands.
func program() string {
	if name := os.Args[0]; filepath.Base(name) == "assay" && !strings.ContainsAny(name, " '\"$") {
		return name
	}
	return "assay"
}

// watch prints scores as they change, until ctx ends or a listener fails.
func (b *board) watch(ctx context.Context) error {
	ticker := time.NewTicker(demoRefresh)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-b.s.failed:
			return err
		case <-ticker.C:
		}
		rows, err := b.read(ctx)
		if err != nil {
			if ctx.Err() == nil {
				b.s.logger.WarnContext(ctx, "the scores could not be read", "error", err)
			}
			continue
		}
		b.show(rows)
	}
}

// read returns the services with a score, as rows of a table.
func (b *board) read(ctx context.Context) ([][]string, error) {
	organization, err := b.s.store.FindOrganizationByName(ctx, firstOrganization)
	if err != nil {
		return nil, err
	}
	page := assay.Page{Limit: listPage}
	services, _, err := b.s.store.FindServices(ctx, organization.ID, page)
	if err != nil {
		return nil, err
	}
	insights, _, err := b.s.store.FindInsights(ctx, assay.InsightFilter{
		OrganizationID: organization.ID, Statuses: []assay.InsightStatus{assay.InsightActive}, Page: page,
	})
	if err != nil {
		return nil, err
	}
	rules := make(map[string][]string)
	for _, i := range insights {
		if r, ok := catalog.ByInsightType(i.Type); ok && r.ID() != "" {
			rules[i.Service.ID] = append(rules[i.Service.ID], r.ID())
		}
	}
	var rows [][]string
	for _, s := range services {
		if s.Score != nil {
			slices.Sort(rules[s.ID])
			rows = append(rows, []string{s.Name, strconv.Itoa(s.Score.Rounded()), s.Score.Category(), orDash(strings.Join(rules[s.ID], " "))})
		}
	}
	return rows, nil
}

// boardTable returns the table for a terminal of some columns. It leaves out rules that would wrap the line, because a
// wrapped line counts as two when the table is drawn again.
func boardTable(rows [][]string, width int) string {
	const rules = "FAILED RULES"
	draw := func() string {
		var out bytes.Buffer
		_ = report.Table(&out, []string{"SERVICE", "SCORE", "BAND", rules}, rows) // writing to a buffer cannot fail
		return out.String()
	}
	room := width - strings.Index(draw(), rules)
	for _, row := range rows {
		row[3] = cutWords(row[3], room)
	}
	return draw()
}

// cutWords returns the words of an ASCII text that fit in some columns, and an ellipsis for the others.
func cutWords(s string, columns int) string {
	if len(s) <= columns {
		return s
	}
	if end := strings.LastIndexByte(s[:max(0, columns-1)], ' '); end > 0 {
		return s[:end] + " …"
	}
	return "…"
}

// show redraws the table on a terminal. Otherwise it prints a line for each service that is new or has changed.
func (b *board) show(rows [][]string) {
	if len(rows) == 0 {
		return
	}
	if width, tty := terminalWidth(b.e.stdout); tty && b.e.getenv("TERM") != "dumb" {
		table := boardTable(rows, width)
		if table == b.table {
			return
		}
		if lines := strings.Count(b.table, "\n"); lines > 0 {
			b.e.print(fmt.Sprintf("\x1b[%dA\x1b[J", lines))
		}
		b.e.print(table)
		b.table = table
		return
	}
	for _, row := range rows {
		line := fmt.Sprintf("%-16s %3s  %-17s  %s", report.Printable(row[0], 40), row[1], row[2], row[3])
		if b.shown[row[0]] != line {
			b.shown[row[0]] = line
			b.e.print(line + "\n")
		}
	}
}
