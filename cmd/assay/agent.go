// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"assay"
	"assay/internal/agent"
	"assay/internal/auth"
	"assay/internal/auth/sign"
	"assay/internal/codebase"
	agentrun "assay/internal/codebase/run"
	"assay/internal/codebase/source"
	"assay/internal/codebase/verify"
	"assay/internal/inprocess"
	"assay/internal/rest"
	"assay/internal/tlsreload"
)

// Values of --agent besides a URL.
const (
	agentEmbedded = "embedded"
	agentNone     = "none"
)

// agentConfig holds the flags of the embedded agent and of forwarding to an external one.
type agentConfig struct {
	secretKeyConfig
	agentRunConfig

	Agent            string        `default:"embedded" placeholder:"embedded|none|URL" help:"Agent: embedded runs it in this server, none disables the operations below /v1/agent, the URL of another agent forwards them (${default})."`
	AgentBackendURL  string        `name:"agent-backend-url" placeholder:"URL" help:"Alias of --agent URL." hidden:""`
	AgentPathAlias   string        `placeholder:"NAME" help:"Alias of the path /v1/agent: serve the operations at /v1/NAME, too." hidden:""`
	AgentAudience    string        `default:"assay-agent" placeholder:"TEXT" help:"Audience of the tokens for the agent (${default})." hidden:""`
	AgentTimeout     time.Duration `default:"30s" help:"Timeout for the agent to begin its response (${default})." hidden:""`
	AgentMaxInFlight int           `default:"1024" placeholder:"N" help:"Maximum requests in flight to the agent (${default})." hidden:""`
	AgentCA          string        `name:"agent-ca" placeholder:"FILE" help:"CA certificates in PEM for an external agent. Default: the system's."`
	AgentCert        string        `placeholder:"FILE" help:"Client certificate in PEM for an external agent."`
	AgentKey         string        `placeholder:"FILE" help:"Private key of --agent-cert in PEM."`
}

// agentRunConfig holds the flags of an agent in this process.
type agentRunConfig struct {
	forgesConfig
	agentModelConfig

	AgentLocalRoot         []string      `sep:"none" placeholder:"DIR" help:"Directory whose repositories may be reviewed without a source host; repeatable. Default: none."`
	AgentAllowPrivateHosts bool          `help:"Allow source hosts in loopback, private and link-local networks."`
	AgentSourceCA          string        `name:"agent-source-ca" placeholder:"FILE" help:"CA certificates in PEM for source hosts. Default: the system's."`
	AgentMaxRepositories   int           `default:"100" placeholder:"N" help:"Maximum active repositories of an organization (${default})."`
	AgentMaxRuns           int           `default:"1" placeholder:"N" help:"Maximum concurrent runs in one process (${default})." hidden:""`
	AgentRunTimeout        time.Duration `default:"15m" help:"Maximum duration of a run (${default})." hidden:""`
	AgentMaxCloneSize      byteSize      `default:"1GiB" placeholder:"SIZE" help:"Maximum size of a repository: its packed objects, and its files (${default})." hidden:""`
	AgentMaxFiles          int           `default:"100000" placeholder:"N" help:"Maximum files of a repository (${default})." hidden:""`
	AgentMemory            byteSize      `default:"1GiB" placeholder:"SIZE" help:"Memory of a review (${default})." hidden:""`
	AgentTestDir           []string      `sep:"none" placeholder:"DIR" help:"Directory with tools or dependencies that tests of repositories may read; repeatable. Default: none."`
	AgentTestEnv           []string      `sep:"none" placeholder:"NAME=VALUE" help:"Environment variable for tests of repositories; repeatable. Default: none."`
	AgentWorkDir           string        `placeholder:"DIR" help:"Directory for clones. Default: agent in the data directory." hidden:""`
}

const (
	// maxAgentTimeout leaves time to answer within the write timeout of a listener.
	maxAgentTimeout = 45 * time.Second

	// agentAddress is the URL of the agent in this process. It is never resolved.
	agentAddress = "http://agent.invalid"
)

var pathAlias = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func (c *agentRunConfig) problems() []error {
	var ck check
	_, err := tlsreload.ReadRoots(c.AgentSourceCA)
	ck.err("agent-source-ca", err)
	if err == nil {
		ck.problems = append(ck.problems, c.forgesConfig.problems(c.AgentSourceCA)...)
	}
	ck.problems = append(ck.problems, c.agentModelConfig.problems()...)
	for _, root := range c.AgentLocalRoot {
		info, err := os.Stat(root)
		ck.err("agent-local-root", err)
		ck.that(err != nil || info.IsDir(), "--agent-local-root: %s is not a directory", root)
	}
	for _, dir := range c.AgentTestDir {
		info, err := os.Stat(dir)
		ck.err("agent-test-dir", err)
		ck.that(err != nil || info.IsDir() && filepath.IsAbs(dir), "--agent-test-dir: %s is not the absolute path of a directory", dir)
	}
	for _, variable := range c.AgentTestEnv {
		name, _, ok := strings.Cut(variable, "=")
		ck.that(ok && name != "", "--agent-test-env: not of the form NAME=VALUE")
	}
	ck.that(c.AgentMaxRepositories > 0 && c.AgentMaxRepositories <= assay.MaxRepositories, "--agent-max-repositories: %d is not in the range from 1 to %d", c.AgentMaxRepositories, assay.MaxRepositories)
	ck.that(c.AgentMaxRuns > 0 && c.AgentMaxRuns <= 64, "--agent-max-runs: %d is not in the range from 1 to 64", c.AgentMaxRuns)
	ck.that(c.AgentRunTimeout >= time.Second, "--agent-run-timeout: %v is under 1s", c.AgentRunTimeout)
	ck.that(c.AgentMaxCloneSize >= 1<<20, "--agent-max-clone-size: %v is under 1MiB", c.AgentMaxCloneSize)
	ck.that(c.AgentMaxFiles > 0, "--agent-max-files: %d is not positive", c.AgentMaxFiles)
	ck.that(c.AgentMemory >= 256<<20, "--agent-memory: %v is under 256MiB", c.AgentMemory)
	return ck.problems
}

func (c *agentConfig) problems() []error {
	ck := check{problems: append(c.secretKeyConfig.problems(), c.agentRunConfig.problems()...)}
	ck.that(c.AgentAudience != "", "--agent-audience: is empty")
	ck.that(c.AgentTimeout > 0 && c.AgentTimeout <= maxAgentTimeout, "--agent-timeout: %v is not in the range up to %v", c.AgentTimeout, maxAgentTimeout)
	ck.that(c.AgentMaxInFlight > 0, "--agent-max-in-flight: %d is not positive", c.AgentMaxInFlight)
	ck.that(c.AgentPathAlias == "" || pathAlias.MatchString(c.AgentPathAlias), "--agent-path-alias: %q is not a name of letters, digits, hyphens and underscores", c.AgentPathAlias)
	ck.that(c.AgentPathAlias == "" || !rest.Serves(c.AgentPathAlias), "--agent-path-alias: /v1/%s has handlers of its own", c.AgentPathAlias)
	ck.that(c.AgentBackendURL == "" || c.Agent == agentEmbedded || c.Agent == c.AgentBackendURL, "--agent and --agent-backend-url contradict each other")
	where := c.agent()
	if where == agentEmbedded || where == agentNone {
		ck.that(c.AgentCA == "" && c.AgentCert == "" && c.AgentKey == "", "--agent-ca, --agent-cert and --agent-key need the URL of an agent")
		return ck.problems
	}
	flag := "agent"
	if c.AgentBackendURL != "" {
		flag = "agent-backend-url"
	}
	if err := checkServiceURL(where); err != nil {
		ck.err(flag, err)
		return ck.problems
	}
	g, err := agent.New(c.gateway(func(context.Context, *assay.Principal) (string, error) { return "", nil }))
	ck.err("agent-*", err)
	if err == nil {
		g.Close()
	}
	return ck.problems
}

// agent returns where the agent is: agentEmbedded, agentNone or a URL.
func (c *agentConfig) agent() string { return cmp.Or(c.AgentBackendURL, c.Agent) }

// gateway returns the part of the gateway's configuration that flags set.
func (c *agentConfig) gateway(signed func(context.Context, *assay.Principal) (string, error)) agent.Config {
	return agent.Config{
		URL: c.agent(), Sign: signed, Timeout: c.AgentTimeout, MaxInFlight: c.AgentMaxInFlight,
		CAFile: c.AgentCA, CertFile: c.AgentCert, KeyFile: c.AgentKey,
	}
}

// openSigner prepares the token signer. secret encrypts its keys.
func (s *server) openSigner(ctx context.Context, secret auth.Secret) (err error) {
	s.signer, err = sign.New(ctx, sign.Config{
		Store: s.store, Issuer: s.publicURL(), Audience: s.cfg.AgentAudience, Secret: secret, Now: s.replica.Now, Logger: s.logger,
	})
	return secretKeyError(err)
}

// openAgent prepares the agent and the gateway to it. credentials encrypts the tokens of source hosts.
func (s *server) openAgent(credentials auth.Secret) (err error) {
	if s.cfg.agent() == agentNone {
		return nil
	}
	cfg := s.cfg.gateway(s.signer.Sign)
	cfg.Wrap = s.own.Transport
	cfg.Observe = s.own.ObserveAgent
	cfg.Now = wallClock
	cfg.Logger = s.logger
	cfg.CPU = s.cpu
	if s.cfg.agent() == agentEmbedded {
		name, err := s.cfg.replicaName()
		if err != nil {
			return err
		}
		own, err := newAgent(&agentParts{
			flags: &s.cfg.agentRunConfig, store: s.store, dataDir: s.cfg.DataDir, secret: credentials, name: name, wrap: s.own.Transport,
			handler: codebase.Config{
				// Fetch the keys from the signer of this process, by the path that an external agent uses.
				JWKSURL: agentAddress + jwksPath, Keys: inprocess.Transport{Handler: s.signer.JWKS()}, Issuer: s.publicURL(), Audience: s.cfg.AgentAudience,
				ConnectURL: s.publicURL() + connectPath, PublicURL: s.publicURL() + s.basePath() + agentPath, CPU: s.cpu, Now: s.replica.Now, Logger: s.logger,
			},
		})
		if err != nil {
			return err
		}
		s.runAgent, s.webhooks = own.run, http.StripPrefix(s.basePath()+agentPath, own.public)
		cfg.URL, cfg.Transport, cfg.Wrap = agentAddress, inprocess.Transport{Handler: own.handler}, nil
	}
	s.gateway, err = agent.New(cfg)
	return err
}

// connectPath is the page of the dashboard on which users connect repositories.
const connectPath = "/repositories/connect"

// agentPath is the path of the agent below the base path of the API.
const agentPath = "/v1/agent"

// forWebhooks reports whether a request is for a path of the agent that needs no credential of the API.
func (s *server) forWebhooks(r *http.Request) bool {
	path, ok := strings.CutPrefix(r.URL.Path, s.basePath()+agentPath)
	return ok && s.webhooks != nil && codebase.IsPublic(path)
}

// agentParts are the dependencies of an agent.
type agentParts struct {
	flags   *agentRunConfig
	store   store
	dataDir string
	secret  auth.Secret // encrypts credentials; "" for none
	name    string      // unique among the agents of one data directory
	handler codebase.Config
	wrap    func(http.RoundTripper) http.RoundTripper // of the connections to the language model; may be nil
}

// ownAgent is an agent in this process.
type ownAgent struct {
	handler http.Handler
	public  http.Handler          // of the paths that need no token
	run     func(context.Context) // executes runs until its context ends
}

// ServeHTTP serves all paths of the agent, for a listener of its own.
func (a *ownAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if codebase.IsPublic(r.URL.Path) {
		a.public.ServeHTTP(w, r)
		return
	}
	a.handler.ServeHTTP(w, r)
}

// abandonedAfter is the minimum age of directories that no run uses any more.
const abandonedAfter = 24 * time.Hour

// removeAbandoned removes the directories of runs and commands that began before a time. A process removes its own, so
// these are of processes that were killed and have not started again under the same name.
func removeAbandoned(work string, before time.Time) error {
	var errs []error
	for _, pattern := range []string{"of-*/runs/*", "of-*/commands/*"} {
		found, err := fs.Glob(os.DirFS(work), pattern)
		errs = append(errs, err)
		for _, name := range found {
			dir := filepath.Join(work, name)
			if info, err := os.Lstat(dir); err == nil && info.ModTime().Before(before) {
				errs = append(errs, os.RemoveAll(dir))
			}
		}
	}
	return errors.Join(errs...)
}

// newAgent returns an agent. Its worker is not started.
func newAgent(p *agentParts) (*ownAgent, error) {
	work := p.flags.AgentWorkDir
	if work == "" {
		work = filepath.Join(p.dataDir, agentDir)
	}
	work, err := filepath.Abs(work)
	if err != nil {
		return nil, err
	}
	if err := removeAbandoned(work, time.Now().Add(-max(abandonedAfter, 2*p.flags.AgentRunTimeout))); err != nil {
		p.handler.Logger.Warn("failed to remove old clones", "error", err)
	}
	work = filepath.Join(work, "of-"+p.name)
	commands := filepath.Join(work, "commands")
	if err := errors.Join(os.RemoveAll(commands), os.MkdirAll(commands, 0o700)); err != nil {
		return nil, fmt.Errorf("make the work directory of the agent: %w", err)
	}
	forges, err := p.flags.forges()
	if err != nil {
		return nil, err
	}
	ca := p.flags.AgentSourceCA
	if ca != "" { // git runs in another directory
		if ca, err = filepath.Abs(ca); err != nil {
			return nil, err
		}
	}
	sources, err := source.New(source.Config{
		Forges: forges, Store: p.store, Now: p.handler.Now,
		Roots: p.flags.AgentLocalRoot, PrivateHosts: p.flags.AgentAllowPrivateHosts, CAFile: ca, WorkDir: commands, Secret: p.secret,
		Limits: source.Limits{Bytes: int64(p.flags.AgentMaxCloneSize), Files: p.flags.AgentMaxFiles, Time: p.flags.AgentRunTimeout},
	})
	if err != nil {
		return nil, err
	}
	proposer, err := p.flags.proposer(p.wrap)
	if err != nil {
		return nil, err
	}
	verifier := &verify.Verifier{ReadOnly: p.flags.AgentTestDir, Env: p.flags.AgentTestEnv}
	worker := agentrun.New(agentrun.Config{
		Store: runStore(p.store), Telemetry: p.store, Sources: sources, Name: p.name, WorkDir: filepath.Join(work, "runs"),
		Reviewer: &agentrun.Scanner{Memory: int64(p.flags.AgentMemory), Time: p.flags.AgentRunTimeout}, Verifier: verifier, Proposer: proposer,
		Slots: p.flags.AgentMaxRuns, Timeout: p.flags.AgentRunTimeout, Now: p.handler.Now, Logger: p.handler.Logger,
	})
	cfg := p.handler
	cfg.Store, cfg.Organizations, cfg.Sources = p.store, p.store, sources
	cfg.RepositoryLimit, cfg.Wake = p.flags.AgentMaxRepositories, worker.Wake
	cfg.RepositoriesURL = strings.TrimSuffix(cfg.ConnectURL, "/connect")
	own := &ownAgent{run: func(ctx context.Context) {
		if err := source.Available(ctx); err != nil && ctx.Err() == nil {
			p.handler.Logger.WarnContext(ctx, "the agent cannot read repositories: install git 2.37 or newer, or run the agent on another host (assay agent serve)", "error", err)
		}
		if err := verifier.Available(ctx); err != nil && ctx.Err() == nil {
			p.handler.Logger.InfoContext(ctx, "tests of repositories cannot run; changes are not verified", "error", err)
		}
		worker.Run(ctx)
		if proposer != nil {
			proposer.Model.CloseIdleConnections()
		}
	}}
	own.handler, own.public = codebase.New(cfg)
	return own, nil
}

// publicURL returns scheme and host under which clients reach the server.
func (s *server) publicURL() string {
	if s.cfg.PublicURL != "" {
		return s.cfg.PublicURL
	}
	return s.rootURL()
}

// agentBackend returns the gateway to the agent, or nil if there is none.
func (s *server) agentBackend() assay.AgentBackend {
	if s.gateway == nil {
		return nil
	}
	return s.gateway
}

// agentCmd has the commands of a standalone agent.
type agentCmd struct {
	Serve agentServeCmd `cmd:"" help:"Run a standalone agent for servers with --agent URL."`
}
