// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
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
	"assay/internal/agentstub"
	"assay/internal/demo"
	"assay/internal/report"
	"assay/internal/rules/catalog"
)

type demoCmd struct {
	HTTPAddress     string        `name:"http-address" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Where the REST API listens (${default}; port 0 is a free one)."`
	OTLPGRPCAddress string        `name:"otlp-grpc-address" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Where OTLP/gRPC listens (${default})."`
	OTLPHTTPAddress string        `name:"otlp-http-address" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Where OTLP/HTTP listens (${default})."`
	For             time.Duration `help:"End after this time; without it, run until interrupted."`
	LogLevel        string        `default:"warn" enum:"debug,info,warn,error" help:"Least level of the log: ${enum} (${default})."`
}

// What the demo does sooner than a server, so that verdicts show while one watches.
const (
	demoTraceIdle     = 3 * time.Second
	demoScoreInterval = time.Second
	demoRefresh       = time.Second // of the table
)

// config returns the configuration of the server within.
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

// Run serves on a temporary store and has the simulated services send to it.
func (c *demoCmd) Run(e *environment) (err error) {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(e.ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if c.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.For)
		defer cancel()
	}
	if cfg.DataDir, err = os.MkdirTemp("", "assay-demo-"); err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.DataDir)) }()

	var lc net.ListenConfig
	backend, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the stand-in of the agent backend: %w", err)
	}
	cfg.AgentBackendURL = "http://" + backend.Addr().String()

	own, err := startTelemetry(e, &cfg)
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	s := newServer(cfg, own)
	if err := s.start(ctx); err != nil {
		return errors.Join(err, backend.Close())
	}
	s.standIn(backend)
	sendCtx, stopSending := context.WithCancel(ctx)
	defer stopSending()
	sent := make(chan error, 1)
	go func() {
		sent <- demo.Run(sendCtx, demo.Config{GRPCAddress: s.grpcAddr(), HTTPAddress: s.otlpHTTPAddr(), Key: s.madeKey, Logger: s.logger})
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

// standIn answers in place of an agent backend on a listener, until the server is
// shut down.
func (s *server) standIn(l net.Listener) {
	stub := newStubServer(agentstub.New(agentstub.Config{
		JWKSURL: s.rootURL() + jwksPath, Issuer: s.publicURL(), Audience: s.cfg.AgentAudience,
		PartnerOrganizations: []string{agentstub.EveryOrganization}, Logger: s.logger,
	}), s.logger)
	s.servers = append(s.servers, stub)
	s.goServe("the stand-in of the agent backend", func() error {
		if err := stub.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

// boardColumns is what the columns before the last one of the board take.
const boardColumns = 46

// board shows what the demo's server makes of its services.
type board struct {
	e     *environment
	s     *server
	table string            // as it stands on a terminal
	shown map[string]string // last line by service, elsewhere
}

// welcome says what runs and what to try. It is the only place where the key is shown.
func (b *board) welcome() {
	opt := b.e.textOptions(b.e.stdout)
	var services []string
	for _, s := range demo.Services() {
		services = append(services, fmt.Sprintf("- `%s`: %s", s.Name, s.About))
	}
	var out bytes.Buffer
	_ = report.Markdown(&out, "# assay demo\n\n"+
		"A small shop of "+strconv.Itoa(len(services))+" simulated services sends OTLP over gRPC and HTTP to a server that keeps its data in a temporary directory. All names and data are invented.\n\n"+
		strings.Join(services, "\n")+"\n", opt)
	key := string(b.s.madeKey)
	fmt.Fprintf(&out, "\nDashboard  %s (sign in with the API key)\nREST API   %s, readable at %s/docs\nOTLP       grpc %s, http %s\nAPI key    %s\n", b.s.dashboardURL(), b.s.restURL(), b.s.restURL(), b.s.grpcAddr(), b.s.otlpHTTPAddr(), key)
	fmt.Fprintf(&out, "Agent      a stand-in for the backend, with invented repositories and runs, at %s\n", b.s.cfg.AgentBackendURL)
	fmt.Fprintf(&out, "\nTry, in another terminal:\n\n")
	fmt.Fprintf(&out, "  curl -s -H 'Authorization: Bearer %s' %s/v1/services\n", key, b.s.restURL())
	fmt.Fprintf(&out, "  curl -s -H 'Authorization: Bearer %s' '%s/v1/insights?impact=Critical'\n", key, b.s.restURL())
	fmt.Fprintf(&out, "  curl -s -H 'Authorization: Bearer %s' %s/v1/agent/repositories\n", key, b.s.restURL())
	fmt.Fprintf(&out, "  %s insight list --data-dir %s\n", program(), b.s.cfg.DataDir)
	fmt.Fprintf(&out, "\nCtrl-C ends the demo.\n\n")
	b.e.print(out.String())
}

// program returns how the program was called, for commands to try.
func program() string {
	if name := os.Args[0]; filepath.Base(name) == "assay" && !strings.ContainsAny(name, " '\"$") {
		return name
	}
	return "assay"
}

// watch shows the scores as they change, until ctx ends or a listener fails.
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

// read returns the services with a score as rows of a table.
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

// show draws the table again on a terminal, and elsewhere writes a line for each
// service that is new or changed.
func (b *board) show(rows [][]string) {
	if len(rows) == 0 {
		return
	}
	if width, tty := terminalWidth(b.e.stdout); tty && b.e.getenv("TERM") != "dumb" {
		var out bytes.Buffer
		for _, row := range rows { // a line that the terminal breaks would be two
			row[3] = report.Printable(row[3], width-boardColumns)
		}
		// A buffer takes everything.
		_ = report.Table(&out, []string{"SERVICE", "SCORE", "BAND", "FAILED RULES"}, rows)
		table := out.String()
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
