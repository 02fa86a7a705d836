// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
	"assay/internal/auth/oidctest"
	"assay/internal/codebase/source/gittest"
	"assay/internal/store/postgres/pgtest"
)

// leaseTime is longer than the lease of a run.
const leaseTime = 20 * time.Second

// faultyProgram has findings, and one of them a fix.
var faultyProgram = map[string]string{
	"go.mod": "module shop\n\ngo 1.26\n\nrequire go.opentelemetry.io/otel v1.43.0\n",
	"shop.go": `package shop

import (
	"context"

	"go.opentelemetry.io/otel"
)

func find(ctx context.Context, id string) error {
	ctx, span := otel.Tracer("shop").Start(ctx, "find "+id)
	defer span.End()
	return load(ctx, id)
}
`,
}

var durations = regexp.MustCompile(`"duration_seconds":[0-9.e-]+`)

// runFleet is replicas that execute runs on the repositories of a source host.
type runFleet struct {
	*testing.T
	fleet    *Fleet
	host     *gittest.Server
	gitea    *gittest.Gitea
	crashes  string            // directory of the points at which replicas die
	ids      map[string]string // of repositories, by name
	database string
	moved    time.Duration // of the store's clock
}

// runTrace is what clients see of a run that has ended and of its repository, without what differs between runs.
type runTrace struct {
	Status   string
	Phases   []string
	Events   []string
	Result   string
	Findings []string
	Branches string
	Pulls    int
}

// startRunFleet starts replicas on an empty store, a source host, and connects its repositories.
func startRunFleet(t *testing.T, cfg FleetConfig, repositories ...string) *runFleet {
	t.Helper()
	ctx := t.Context()
	f := &runFleet{T: t, gitea: &gittest.Gitea{Names: repositories}, crashes: t.TempDir(), ids: map[string]string{}, database: cfg.Database}
	f.host = gittest.Start(t, f.gitea.Wrap)
	for _, name := range repositories {
		f.host.Create(t, name+".git", faultyProgram)
	}
	provider, err := oidctest.Start()
	require.NoError(t, err)
	t.Cleanup(provider.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(strings.Repeat("5a", 32)), 0o600))
	cfg.Program, err = assaytest.FaultsBinary()
	require.NoError(t, err)
	cfg.Data, cfg.Organizations = t.TempDir(), []string{DefaultOrganization}
	// The replicas share the origin. No client connects to it.
	cfg.Args = []string{
		"--public-url", "https://assay.example.com", "--secret-key-file", secret, "--oidc-issuer", provider.URL, "--oidc-audience", oidctest.Client,
		"--agent-allow-private-hosts", "--agent-source-ca", f.host.CA, "--agent-gitea-url", f.host.URL, "--agent-gitea-client-id", "client", "--agent-gitea-client-secret", "client-secret",
	}
	cfg.Environ = func(int) []string { return f.environ() }
	if cfg.Database != "" {
		require.NoError(t, pgtest.ShiftClock(ctx, cfg.Database, 0))
	}
	f.fleet, err = StartFleet(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, f.fleet.Close())
		if t.Failed() {
			for _, r := range f.fleet.Replicas {
				t.Logf("%s:\n%s", r.Name, r.config.Log.String())
			}
		}
	})
	_, err = f.fleet.command(ctx, "organization", "set-external-id", DefaultOrganization, "customer-7")
	require.NoError(t, err)
	user, _, err := provider.Tokens(ctx)
	require.NoError(t, err)
	f.connect(user)
	return f
}

func (f *runFleet) environ() []string {
	all := []string{"PATH=" + os.Getenv("PATH"), "FAULTS_CRASH_DIR=" + f.crashes}
	if f.database == "" {
		all = append(all, "FAULTS_CLOCK_SHIFT="+f.moved.String())
	}
	return all
}

// connect authorizes all repositories as a user does.
func (f *runFleet) connect(user string) {
	f.Helper()
	var session struct {
		URL string `json:"installation_url"`
	}
	f.call(user, "POST", "/onboarding/session", map[string]any{"write": true}, &session)
	client := f.host.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	granted, err := assaytest.Do(f.Context(), client, http.MethodGet, session.URL, "", nil)
	require.NoError(f, err)
	back, err := url.Parse(granted.Header.Get("Location"))
	require.NoError(f, err)
	s := f.running()
	a, err := assaytest.Do(f.Context(), s.Client, http.MethodPost, s.Root+back.Path, "", []byte(back.RawQuery), "Content-Type", "application/x-www-form-urlencoded")
	require.NoError(f, err)
	require.Equal(f, 200, a.Status, "%s", a.Body)
	var listed struct {
		Data []struct {
			Repos []struct {
				ID   string `json:"id"`
				Name string `json:"repo_full_name"`
			} `json:"repos"`
		} `json:"data"`
	}
	f.call(bootstrapKey, "GET", "/repositories", nil, &listed)
	for _, r := range listed.Data[0].Repos {
		f.ids[r.Name] = r.ID
		f.call(user, "PUT", "/repositories/"+r.ID+"/settings", map[string]any{"test_command": "true"}, nil)
	}
	require.Len(f, f.ids, len(f.gitea.Names))
}

// running returns a server that runs.
func (f *runFleet) running() *assaytest.Server {
	f.Helper()
	for _, r := range f.fleet.Replicas {
		if s := r.running(); s != nil && s.Running() {
			return s
		}
	}
	require.Fail(f, "no replica runs")
	return nil
}

// call calls an operation of the agent.
func (f *runFleet) call(credential, method, path string, body map[string]any, into any) {
	f.Helper()
	text, err := json.Marshal(body)
	require.NoError(f, err)
	s := f.running()
	a, err := assaytest.Do(f.Context(), s.Client, method, s.REST+"/v1/agent"+path, credential, text, "Content-Type", "application/json")
	require.NoError(f, err)
	require.Equal(f, 200, a.Status, "%s %s: %s", method, path, a.Body)
	if into != nil {
		var answer struct {
			Data json.RawMessage `json:"data"`
		}
		require.NoError(f, json.Unmarshal(a.Body, &answer))
		require.NoError(f, json.Unmarshal(answer.Data, into))
	}
}

// run runs a review or a fix of all findings of a repository. The replica that executes it dies at each of the points.
func (f *runFleet) run(kind, repository string, points ...string) runTrace {
	f.Helper()
	id := f.ids[repository]
	body := map[string]any{"repo_id": id}
	switch kind {
	case "review":
		f.call(bootstrapKey, "PATCH", "/repositories/"+id, map[string]any{"is_active": true}, nil)
	case "fix":
		ids := []string{}
		for _, finding := range f.findings(repository) {
			ids = append(ids, finding.ID)
		}
		body["finding_ids"] = ids
	}
	for _, p := range points {
		require.NoError(f, os.WriteFile(filepath.Join(f.crashes, p), nil, 0o600))
	}
	var scheduled struct{ ExecutionID string }
	f.call(bootstrapKey, "POST", "/codebase/"+kind+"/execute", body, &scheduled)
	for range points {
		f.awaitCrash()
	}
	left, err := os.ReadDir(f.crashes)
	require.NoError(f, err)
	require.Empty(f, left, "no replica died there")
	f.restart(nil)

	var detail struct {
		Execution struct{ Status, Error string }
		Phases    []struct{ Key, State string }
		Events    []struct{ EventName, Message, PhaseKey, Transition string }
		Result    json.RawMessage
	}
	require.NoError(f, assaytest.Await(f.Context(), assaytest.Limit, assaytest.PollInterval, func() error {
		f.call(bootstrapKey, "GET", "/executions/"+scheduled.ExecutionID, nil, &detail)
		if s := detail.Execution.Status; s == "pending" || s == "running" {
			return fmt.Errorf("the run is %s: %v", s, detail.Events)
		}
		return nil
	}))
	require.Equal(f, "completed", detail.Execution.Status, detail.Execution.Error)
	var runs struct {
		Data []struct{ ID string }
	}
	f.call(bootstrapKey, "GET", "/executions?executionType="+kind+"&repositoryId="+id, nil, &runs)
	require.Len(f, runs.Data, 1, "one run was scheduled")

	var result struct {
		Branch string `json:"branch"`
		Commit string `json:"commit_sha"`
	}
	require.NoError(f, json.Unmarshal(detail.Result, &result))
	dir := filepath.Join(f.host.Root, filepath.FromSlash(repository)+".git")
	require.Equal(f, gittest.Git(f, dir, "rev-parse", result.Branch), result.Commit)
	// The time of the run makes the commit.
	same := strings.NewReplacer(repository, "REPOSITORY", scheduled.ExecutionID, "RUN", result.Commit, "COMMIT").Replace
	t := runTrace{Status: detail.Execution.Status, Result: durations.ReplaceAllString(same(string(detail.Result)), "")}
	for _, p := range detail.Phases {
		t.Phases = append(t.Phases, p.Key+" "+p.State)
	}
	for _, e := range detail.Events {
		t.Events = append(t.Events, same(fmt.Sprintf("%s %s %s: %s", e.EventName, e.PhaseKey, e.Transition, e.Message)))
	}
	for _, finding := range f.findings(repository) {
		text, err := json.Marshal(finding)
		require.NoError(f, err)
		t.Findings = append(t.Findings, string(text))
	}
	for _, branch := range strings.Fields(gittest.Git(f, dir, "for-each-ref", "--format=%(refname)")) {
		t.Branches += branch + ": " + gittest.Git(f, dir, "rev-list", "--count", branch) + " commits\n"
	}
	for _, p := range f.gitea.Pulls() {
		if p.Repository == repository {
			t.Pulls++
		}
	}
	return t
}

// finding is a finding, as far as a repeated review must not change it.
type finding struct {
	ID         string            `json:"finding_id"`
	Check      string            `json:"check"`
	Severity   string            `json:"severity"`
	Status     string            `json:"status"`
	FixStatus  *string           `json:"fix_status"`
	Pull       *int              `json:"pr_number"`
	PullStatus *string           `json:"pr_status"`
	Locations  []json.RawMessage `json:"locations"`
}

func (f *runFleet) findings(repository string) []finding {
	f.Helper()
	var detail struct{ Findings []finding }
	f.call(bootstrapKey, "GET", "/repositories/"+f.ids[repository], nil, &detail)
	return detail.Findings
}

// awaitCrash waits until a replica has died, ends its lease by the clock of the store, and starts the replica that
// continues the run: on PostgreSQL another one.
func (f *runFleet) awaitCrash() {
	f.Helper()
	ended := make(chan *Replica, len(f.fleet.Replicas))
	watching, stop := context.WithCancel(f.Context())
	defer stop()
	watched := 0
	for _, r := range f.fleet.Replicas {
		if s := r.running(); s != nil {
			watched++
			go func() {
				select {
				case <-s.Ended():
					ended <- r // does not block
				case <-watching.Done():
				}
			}()
		}
	}
	require.Positive(f, watched)
	var dead *Replica
	select {
	case dead = <-ended:
	case <-time.After(assaytest.Limit):
		require.Fail(f, "no replica dies")
	}
	dead.Kill()
	f.moved += leaseTime
	if f.database == "" {
		f.restart(nil)
		return
	}
	require.NoError(f, pgtest.ShiftClock(f.Context(), f.database, f.moved))
	f.restart(dead)
}

// restart starts the replicas that have died, but for one.
func (f *runFleet) restart(except *Replica) {
	f.Helper()
	for _, r := range f.fleet.Replicas {
		if r.running() == nil && r != except {
			r.config.Environ = f.environ()
			require.NoError(f, r.Start(f.Context()))
		}
	}
}

// tidy checks that no replica has left a clone or a command's files.
func (f *runFleet) tidy() {
	f.Helper()
	require.NoError(f, f.fleet.Terminate())
	left, err := filepath.Glob(filepath.Join(f.fleet.cfg.Data, "*", "agent", "of-*", "*", "*"))
	require.NoError(f, err)
	require.Empty(f, left)
}

// runPoints returns the points of a type of runs at which its replica dies, in order: in the short form at the end of
// each phase.
func runPoints(kind string) (points []string) {
	type phase struct {
		name    string
		between []string // while it is executed
	}
	phases := map[string][]phase{
		"review": {{"checkout", nil}, {"scan", nil}, {"correlate", nil}, {"report", []string{"save-review"}}},
		"fix":    {{"checkout", nil}, {"plan", nil}, {"change", []string{"save-patch"}}, {"verify", []string{"fix.verify.note"}}, {"publish", []string{"save-fix"}}},
	}[kind]
	for _, p := range phases {
		name := kind + "." + p.name + "."
		if !*long {
			points = append(points, name+"completed")
			continue
		}
		points = append(append(append(points, name+"started"), p.between...), name+"completed", name+"saved")
	}
	return points
}

// TestRunsKilled kills the replica of a review and of a fix at each phase. Each run completes once and leaves what a run
// without faults leaves.
func TestRunsKilled(t *testing.T) {
	parallel(t)
	test := func(t *testing.T, cfg FleetConfig) {
		names := []string{"mona/undisturbed"}
		all := map[string][]string{"review": runPoints("review"), "fix": runPoints("fix")}
		if *long {
			// Each point has a run of its own.
			for i := range max(len(all["review"]), len(all["fix"])) {
				names = append(names, fmt.Sprintf("mona/killed-%d", i))
			}
		} else {
			names = append(names, "mona/killed")
		}
		f := startRunFleet(t, cfg, names...)
		want := map[string]runTrace{}
		for _, kind := range []string{"review", "fix"} {
			want[kind] = f.run(kind, names[0])
		}
		require.NotEmpty(t, want["review"].Findings)
		require.Equal(t, 1, want["fix"].Pulls)
		for i, name := range names[1:] {
			for _, kind := range []string{"review", "fix"} {
				points := all[kind]
				if *long {
					points = points[min(i, len(points)):min(i+1, len(points))]
				}
				require.Equal(t, want[kind], f.run(kind, name, points...), "killed at %v", points)
			}
		}
		f.tidy()
	}
	t.Run("sqlite", func(t *testing.T) {
		parallel(t)
		test(t, FleetConfig{})
	})
	t.Run("postgres", func(t *testing.T) {
		parallel(t)
		cfg := onPostgres(t, startServer(t))
		cfg.Replicas = 2
		test(t, cfg)
	})
}
