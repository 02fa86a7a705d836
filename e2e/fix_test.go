// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/codebase/source/gittest"

	"github.com/stretchr/testify/require"
)

// gitServer serves the bare repository shop.git over TLS, for reading and writing.
type gitServer struct {
	*gittest.Server
	dir string
}

func startGit(t *testing.T, files map[string]string) *gitServer {
	t.Helper()
	s := &gitServer{Server: gittest.Start(t, nil)}
	s.dir = s.Create(t, "shop.git", files)
	return s
}

// fixRun is what the API says of a run that changes code.
type fixRun struct {
	Execution struct{ Status, Error string }
	Result    struct {
		Branch       string   `json:"branch"`
		Commit       string   `json:"commit_sha"`
		PatchURL     string   `json:"patch_url"`
		Fixed        []string `json:"fixed_finding_ids"`
		Note         string   `json:"note"`
		Verification struct {
			Status string `json:"status"`
			Reason string `json:"reason"`
			Tests  map[string]*struct {
				Passed bool   `json:"passed"`
				Output string `json:"output"`
			} `json:"tests"`
			Rules []struct {
				ID      string `json:"rule_id"`
				Service string `json:"service"`
				Before  string `json:"before"`
				After   string `json:"after"`
			} `json:"rules"`
			Scores []struct {
				Service string   `json:"service"`
				Before  *float64 `json:"before"`
				After   *float64 `json:"after"`
			} `json:"scores"`
			Review struct {
				Before int `json:"findings_before"`
				After  int `json:"findings_after"`
			} `json:"review"`
		} `json:"verification"`
	}
}

// repository is a connected repository.
type repository struct {
	*daemon
	t  *testing.T
	id string
}

// connect connects a repository with write access and reviews it.
func (s *gitServer) connect(t *testing.T, d *daemon) *repository {
	t.Helper()
	r := &repository{daemon: d, t: t}
	var made struct {
		Repositories []struct {
			ID string `json:"id"`
		} `json:"repositories"`
	}
	r.call("POST", "/onboarding/installations", fmt.Sprintf(`{"kind":"git","url":%q,"token":%q,"write":true}`, s.URL+"/shop.git", gittest.Token), &made)
	r.id = made.Repositories[0].ID
	r.call("PATCH", "/repositories/"+r.id, `{"is_active":true}`, nil)
	r.review()
	return r
}

// call calls an operation of the agent.
func (r *repository) call(method, path, body string, into any) {
	r.t.Helper()
	a, err := r.ask(r.t.Context(), method, r.Root+"/api/v1/agent"+path, []byte(body), "Authorization", "Bearer "+bootstrapKey, "Content-Type", "application/json")
	require.NoError(r.t, err)
	require.Equal(r.t, 200, a.Status, "%s %s: %s", method, path, a.Body)
	if into != nil {
		var answer struct {
			Data json.RawMessage `json:"data"`
		}
		require.NoError(r.t, json.Unmarshal(a.Body, &answer))
		require.NoError(r.t, json.Unmarshal(answer.Data, into))
	}
}

// wait schedules a run and waits for its end.
func (r *repository) wait(path, body string) (detail fixRun, id string) {
	r.t.Helper()
	var scheduled struct{ ExecutionID string }
	r.call("POST", path, body, &scheduled)
	eventually(r.t, func() bool {
		detail = fixRun{}
		r.call("GET", "/executions/"+scheduled.ExecutionID, "", &detail)
		require.NotEqual(r.t, "failed", detail.Execution.Status, detail.Execution.Error)
		return detail.Execution.Status == "completed"
	}, "the run does not end")
	return detail, scheduled.ExecutionID
}

func (r *repository) review() {
	r.t.Helper()
	r.wait("/codebase/review/execute", fmt.Sprintf(`{"repo_id":%q}`, r.id))
}

// findings returns the ids of the active findings with a fix by check.
func (r *repository) findings() map[string]string {
	r.t.Helper()
	var listed struct {
		Data []struct {
			ID      string `json:"finding_id"`
			Check   string `json:"check"`
			Fixable bool   `json:"fixable"`
		} `json:"data"`
	}
	r.call("GET", "/findings", "", &listed)
	all := map[string]string{}
	for _, f := range listed.Data {
		if f.Fixable {
			all[f.Check] = f.ID
		}
	}
	return all
}

// fix fixes findings.
func (r *repository) fix(ids ...string) (fixRun, string) {
	r.t.Helper()
	text, err := json.Marshal(map[string]any{"repo_id": r.id, "finding_ids": ids})
	require.NoError(r.t, err)
	return r.wait("/codebase/fix/execute", string(text))
}

// fixture returns the files of a program in testdata/fix.
func fixture(t *testing.T, name string) map[string]string {
	t.Helper()
	dir := filepath.Join("testdata", "fix", name)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(text)
	}
	return files
}

// goDirs returns the flags that let tests use the toolchain and the caches of this machine, which has compiled what the
// program of a directory needs.
func goDirs(t *testing.T, dir string) (flags []string) {
	t.Helper()
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %v: %s", args, out)
		return strings.TrimSpace(string(out))
	}
	run("test", "-vet=off", "-run", "^$", "./...")
	for _, name := range []string{"GOROOT", "GOCACHE", "GOMODCACHE"} {
		flags = append(flags, "--agent-test-dir", run("env", name), "--agent-test-env", name+"="+run("env", name))
	}
	// With other values, go compiles the packages again. It need not vet them, and all that they import.
	flags = append(flags, "--agent-test-env", "CGO_ENABLED="+run("env", "CGO_ENABLED"))
	flags = append(flags, "--agent-test-env", "GOFLAGS="+run("env", "GOFLAGS")+" -buildvcs=false -vet=off")
	return append(flags, "--agent-test-env", "PATH="+filepath.Join(run("env", "GOROOT"), "bin")+":/usr/local/bin:/usr/bin:/bin")
}

// TestFix takes programs in two languages with faulty telemetry through review, fix, verification in the sandbox, branch
// and patch. The rules that failed pass, the score rises, and the next review is clean.
func TestFix(t *testing.T) {
	t.Parallel()
	packages, err := filepath.Abs(filepath.Join("..", "bin", "tools", "otel-node"))
	require.NoError(t, err)
	programs := map[string]struct{ service, file string }{"go": {"shop", "shop.go"}, "node": {"cart", "cart.js"}}
	flags := []string{"--bootstrap-api-key", bootstrapKey, "--agent-allow-private-hosts", "--agent-test-dir", packages, "--agent-test-env", "NODE_PATH=" + filepath.Join(packages, "node_modules")}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := startGit(t, fixture(t, name))
			flags := append(slices.Clip(flags), "--agent-source-ca", host.CA)
			if name == "go" {
				flags = append(flags, goDirs(t, filepath.Join("testdata", "fix", "go"))...)
			}
			d := startDaemon(t, t.TempDir(), flags...)
			r := host.connect(t, d)
			found := r.findings()
			require.Contains(t, found, "span-name-dynamic")
			require.Contains(t, found, "sensitive-attribute")
			fixed, id := r.fix(found["span-name-dynamic"], found["sensitive-attribute"])

			v := fixed.Result.Verification
			require.Equal(t, "verified", v.Status, "%s\n%+v", v.Reason, fixed)
			require.True(t, v.Tests["before"].Passed)
			require.True(t, v.Tests["after"].Passed)
			states := map[string]string{}
			for _, rule := range v.Rules {
				require.Equal(t, program.service, rule.Service)
				states[rule.ID] = rule.Before + ", " + rule.After
			}
			require.Equal(t, "failed, passed", states["SPA-003"], "span names")
			require.Equal(t, "failed, passed", states["SPA-006"], "sensitive data")
			require.Len(t, v.Scores, 1)
			require.Greater(t, *v.Scores[0].After, *v.Scores[0].Before)
			require.InDelta(t, 100, *v.Scores[0].After, 0, "no other rule fails: %v", states)
			require.Equal(t, 2, v.Review.Before-v.Review.After)

			require.Equal(t, fixed.Result.Commit, gittest.Git(t, host.dir, "rev-parse", fixed.Result.Branch))
			require.Equal(t, program.file, gittest.Git(t, host.dir, "diff", "--name-only", "main", fixed.Result.Branch))
			var patch struct{ Format, Patch string }
			r.call("GET", "/executions/"+id+"/patch", "", &patch)
			work := t.TempDir()
			gittest.Git(t, work, "clone", "--quiet", host.dir, ".")
			file := filepath.Join(t.TempDir(), "x.patch")
			require.NoError(t, os.WriteFile(file, []byte(patch.Patch), 0o644))
			gittest.Git(t, work, "apply", file)
			require.Empty(t, gittest.Git(t, work, "diff", "origin/"+fixed.Result.Branch), "the patch gives what the branch has")

			gittest.Git(t, host.dir, "update-ref", "refs/heads/main", fixed.Result.Branch)
			r.review()
			require.Empty(t, r.findings())
		})
	}
}

// TestFixThatBreaksATest is not published: a test of the repository wants the name that the fix changes.
func TestFixThatBreaksATest(t *testing.T) {
	t.Parallel()
	files := fixture(t, "go")
	files["name_test.go"] = `package shop

import (
	"os"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	if text, err := os.ReadFile("shop.go"); err != nil || !strings.Contains(string(text), "order \"+id") {
		t.Fatal("the name of the span has changed")
	}
}
`
	host := startGit(t, files)
	flags := append(goDirs(t, filepath.Join("testdata", "fix", "go")), "--bootstrap-api-key", bootstrapKey, "--agent-allow-private-hosts", "--agent-source-ca", host.CA)
	r := host.connect(t, startDaemon(t, t.TempDir(), flags...))
	fixed, _ := r.fix(r.findings()["span-name-dynamic"])
	v := fixed.Result.Verification
	require.Equal(t, "rejected", v.Status, v.Reason)
	require.True(t, v.Tests["before"].Passed)
	require.False(t, v.Tests["after"].Passed)
	require.Contains(t, v.Tests["after"].Output, "the name of the span has changed")
	require.Contains(t, fixed.Result.Note, "rejects it")
	require.Empty(t, fixed.Result.Branch)
	require.Equal(t, "main", gittest.Git(t, host.dir, "branch", "--format=%(refname:short)"))
	require.NotEmpty(t, fixed.Result.PatchURL)
}
