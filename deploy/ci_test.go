// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"assay/internal/assaytest"
)

// comment is a comment on a pull request, with the fields of both forges.
type comment struct {
	ID   int    `json:"id"`
	Body string `json:"body"`
	User struct {
		Login string `json:"login"`
	} `json:"user"`
	Author struct {
		ID int `json:"id"`
	} `json:"author"`
}

// newComment returns a comment of the token's owner or of another user.
func newComment(id int, own bool, body string) *comment {
	c := &comment{ID: id, Body: body}
	c.User.Login, c.Author.ID = "somebody", 3
	if own {
		c.User.Login, c.Author.ID = "github-actions[bot]", 7
	}
	return c
}

// forge implements the parts of the GitHub and GitLab APIs that comments need.
type forge struct {
	sync.Mutex      // held by requests; see report
	denied     bool // the token has no permission
	comments   []*comment
	calls      int
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.Lock()
	defer f.Unlock()
	f.calls++
	if f.denied || r.Header.Get("Authorization") != "Bearer secret-token" && r.Header.Get("Private-Token") != "secret-token" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	var sent comment
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	var answer any
	switch call := r.Method + " " + r.URL.Path; call {
	case "GET /user":
		answer = map[string]int{"id": 7}
	case "GET /repos/shop/cart/issues/12/comments", "GET /projects/5/merge_requests/12/notes":
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		answer = f.comments[min((page-1)*100, len(f.comments)):min(page*100, len(f.comments))]
	case "POST /repos/shop/cart/issues/12/comments", "POST /projects/5/merge_requests/12/notes":
		f.comments = append(f.comments, newComment(1000+len(f.comments), true, sent.Body))
		w.WriteHeader(http.StatusCreated)
	default:
		i := slices.IndexFunc(f.comments, func(c *comment) bool {
			return call == fmt.Sprint("PATCH /repos/shop/cart/issues/comments/", c.ID) || call == fmt.Sprint("PUT /projects/5/merge_requests/12/notes/", c.ID)
		})
		if i < 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		f.comments[i].Body = sent.Body
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// hostileBranch is a branch name that Git accepts and a shell would execute.
const hostileBranch = "x';$(touch${IFS}executed);`touch${IFS}executed`"

// pullRequest returns a clone of a repository whose work tree is the merge of a pull request:
// a.js is on the base branch, b.js is new. Both have a finding.
func pullRequest(t *testing.T) (dir, base string) {
	dir = t.TempDir()
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "git %v: %s", args, out)
		return strings.TrimSpace(string(out))
	}
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	const code = "const {trace} = require('@opentelemetry/api')\nconst tracer = trace.getTracer('x')\n" +
		"function f(id) { tracer.startActiveSpan('GET /cart/' + id, span => { span.end() }) }\n"
	git("init", "--quiet", "--initial-branch=main")
	write("package.json", `{"dependencies": {"@opentelemetry/api": "1.9.0"}}`)
	write("a.js", code)
	git("add", ".")
	git("commit", "--quiet", "--message=base")
	git("checkout", "--quiet", "-b", hostileBranch)
	write("b.js", code)
	git("add", ".")
	git("commit", "--quiet", "--message=change")
	git("checkout", "--quiet", "main")
	git("commit", "--quiet", "--allow-empty", "--message=later")
	base = git("rev-parse", "HEAD")
	git("merge", "--quiet", "--no-ff", "--message=merge", hostileBranch)

	// A runner clones only the last commit.
	clone := t.TempDir()
	git("clone", "--quiet", "--depth=1", "file://"+dir, clone)
	return clone, base
}

// report runs assay-ci report in a directory and returns its exit code and output. The lock orders requests
// of that process, which runs concurrently, with the test.
func report(t *testing.T, f *forge, dir string, env map[string]string) (code int, output string) {
	order := func() { f.Lock(); defer f.Unlock() }
	order()
	defer order()
	script, err := filepath.Abs("ci/assay-ci")
	require.NoError(t, err)
	program, err := assaytest.Binary()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "bash", script, "report")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(dir), "ASSAY_PROGRAM=" + program}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		require.IsType(t, new(exec.ExitError), err)
	}
	require.NotContains(t, string(out), "secret-token")
	require.NoFileExists(t, filepath.Join(dir, "executed"))
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestCIReport runs the script of the GitHub action and the GitLab template with a real
// program, on a pull request with a hostile branch name and title.
func TestCIReport(t *testing.T) {
	tools(t, "bash", "curl", "jq", "git")
	dir, base := pullRequest(t)
	head, err := exec.CommandContext(t.Context(), "git", "-C", dir, "rev-parse", "HEAD").Output()
	require.NoError(t, err)
	recording, err := filepath.Abs("../testdata/cases/score-two-services.jsonl.gz")
	require.NoError(t, err)
	event := filepath.Join(t.TempDir(), "event.json")
	text, err := json.Marshal(map[string]any{"pull_request": map[string]any{
		"number": 12, "title": "$(touch executed)", "head": map[string]any{"ref": hostileBranch}, "base": map[string]any{"sha": base},
	}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(event, text, 0o600))

	for name, forgeEnv := range map[string]func(url string) map[string]string{
		"GitHub": func(url string) map[string]string {
			return map[string]string{
				"GITHUB_ACTIONS": "true", "GITHUB_API_URL": url, "GITHUB_REPOSITORY": "shop/cart", "GITHUB_EVENT_PATH": event,
				"GITHUB_SHA": strings.TrimSpace(string(head)), "GITHUB_HEAD_REF": hostileBranch,
			}
		},
		"GitLab": func(url string) map[string]string {
			return map[string]string{
				"GITLAB_CI": "true", "CI_API_V4_URL": url, "CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "12",
				"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_COMMIT_REF_NAME": hostileBranch, "CI_MERGE_REQUEST_TITLE": "$(touch executed)",
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &forge{}
			for i := range 120 { // more than a page; another user imitates the comment
				f.comments = append(f.comments, newComment(i+1, false, "<!-- assay: assay -->\nnot of assay"))
			}
			server := httptest.NewServer(f)
			defer server.Close()
			run := func(changes map[string]string) (int, string, string) {
				env := forgeEnv(server.URL)
				env["COMMENT_TOKEN"], env["REVIEW_PATH"], env["TELEMETRY_FILES"] = "secret-token", ".", recording
				// The pull request commits a link at the place of the report.
				env["REPORT_FILE"] = filepath.Join(t.TempDir(), "report.md")
				program := filepath.Join(t.TempDir(), "program")
				require.NoError(t, os.WriteFile(program, []byte("code"), 0o600))
				require.NoError(t, os.Symlink(program, env["REPORT_FILE"]))
				for name, value := range changes {
					env[name] = value
				}
				code, out := report(t, f, dir, env)
				written, err := os.ReadFile(env["REPORT_FILE"])
				require.NoError(t, err, out)
				kept, err := os.ReadFile(program)
				require.NoError(t, err)
				require.Equal(t, "code", string(kept), "the target of the link")
				return code, out, string(written)
			}

			code, out, written := run(nil)
			require.Zero(t, code, out)
			require.Empty(t, out)
			require.Len(t, f.comments, 121)
			require.Equal(t, "<!-- assay: assay -->\n"+written, f.comments[120].Body)
			require.Contains(t, written, "| shop/stock |")
			require.Contains(t, written, "<b>b.js</b>: 1 finding")
			require.NotContains(t, written, "a.js", "its lines are not changed")

			// The next push updates the same comment, and the conditions are not met.
			code, out, _ = run(map[string]string{"TELEMETRY_FILES": "", "REVIEW_FAIL_ON": "high"})
			require.Equal(t, 1, code, out)
			require.Len(t, f.comments, 121)
			require.NotContains(t, f.comments[120].Body, "shop/stock")
			require.Contains(t, f.comments[120].Body, "<b>b.js</b>: 1 finding")

			code, out, _ = run(map[string]string{"TELEMETRY_MIN_SCORE": "90"})
			require.Equal(t, 1, code, out)
			code, out, written = run(map[string]string{"TELEMETRY_FILES": "missing-*.jsonl"})
			require.Equal(t, 2, code, out)
			require.Contains(t, written, "## Instrumentation Score\n\nFailed with exit code 2.")

			// Another job has its own comment.
			code, out, _ = run(map[string]string{"COMMENT_NAME": "review"})
			require.Zero(t, code, out)
			require.Len(t, f.comments, 122)
			for _, c := range f.comments[:120] {
				require.Equal(t, "<!-- assay: assay -->\nnot of assay", c.Body)
			}

			// The token of a fork's pull request cannot write.
			f.denied = true
			code, out, _ = run(nil)
			require.Zero(t, code, out)
			require.Contains(t, out, "cannot comment on the pull request")

			// Without a pull request: no comment, and all findings.
			f.calls = 0
			code, out, written = run(map[string]string{"GITHUB_EVENT_PATH": os.DevNull, "CI_MERGE_REQUEST_IID": "", "CI_MERGE_REQUEST_DIFF_BASE_SHA": ""})
			require.Zero(t, code, out)
			require.Contains(t, written, "<b>a.js</b>: 1 finding")
			require.Zero(t, f.calls)
		})
	}

	// A pull request commits the files of a bare repository whose configuration names a program.
	t.Run("embedded repository", func(t *testing.T) {
		embedded := filepath.Join(dir, "svc")
		for _, args := range [][]string{
			{"init", "--quiet", "--bare", embedded},
			{"--git-dir=" + embedded, "config", "core.sshCommand", "touch " + filepath.Join(dir, "executed") + ";"},
			{"--git-dir=" + embedded, "config", "remote.origin.url", "ssh://127.0.0.1/x"},
		} {
			out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		defer os.RemoveAll(embedded)
		code, out := report(t, &forge{}, dir, map[string]string{
			"GITLAB_CI": "true", "CI_API_V4_URL": "http://127.0.0.1:1", "CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_DIFF_BASE_SHA": strings.Repeat("1", 40), "REVIEW_PATH": "svc",
		})
		require.NotZero(t, code, out)
		require.Contains(t, out, "bare repository")
	})

	t.Run("long", func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "assay")
		sections := filepath.Join(t.TempDir(), "sections")
		require.NoError(t, os.WriteFile(sections, []byte("## Report\n"+strings.Repeat("\n<details>\n\n`"+strings.Repeat("@é ", 400)+"`\n</details>\n", 40)), 0o600))
		require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nfor a; do case $a in --output=*) cat '"+sections+"' >\"${a#*=}\";; esac; done\n"), 0o700))
		f := &forge{comments: []*comment{}}
		server := httptest.NewServer(f)
		defer server.Close()
		summary := filepath.Join(t.TempDir(), "summary.md")
		code, out := report(t, f, dir, map[string]string{
			"GITHUB_ACTIONS": "true", "GITHUB_API_URL": server.URL, "GITHUB_REPOSITORY": "shop/cart", "GITHUB_EVENT_PATH": event, "GITHUB_SHA": "",
			"GITHUB_STEP_SUMMARY": summary, "COMMENT_TOKEN": "secret-token", "TELEMETRY_FILES": recording, "REVIEW_PATH": ".", "ASSAY_PROGRAM": program,
		})
		require.Zero(t, code, out)
		require.Empty(t, out)
		require.Len(t, f.comments, 1)
		require.Less(t, len([]rune(f.comments[0].Body)), 65_536)
		shown, note, _ := strings.Cut(f.comments[0].Body, "\n(")
		require.Contains(t, note, "The report is longer.")
		require.True(t, strings.HasSuffix(shown, "`\n</details>\n"), "the comment ends outside of code: %q", shown[len(shown)-40:])
		require.Greater(t, len([]rune(shown)), 55_000)
		require.Equal(t, 2*40*400, strings.Count(string(read(t, summary)), "é"))
	})
}

// release serves a release with an archive and its checksums. It returns the environment that trusts the
// server, and the checksum.
func release(t *testing.T) (env []string, checksum string) {
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	w := tar.NewWriter(z)
	for _, name := range []string{"assay", "assay-ci"} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "assay_1.2.3/" + name, Mode: 0o755, Size: 3}))
		_, err := w.Write([]byte("#!\n"))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	name := fmt.Sprintf("assay_1.2.3_linux_%s.tar.gz", runtime.GOARCH)
	checksum = fmt.Sprintf("%x", sha256.Sum256(archive.Bytes()))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/download/v1.2.3/" + name:
			_, _ = w.Write(archive.Bytes())
		case "/download/v1.2.3/SHA256SUMS":
			fmt.Fprintf(w, "%064d  other.tar.gz\n%s  %s\n", 0, checksum, name)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	return []string{
		"PATH=" + os.Getenv("PATH"), "CURL_CA_BUNDLE=" + authority, "ASSAY_VERSION=v1.2.3",
		"RELEASE_URL=" + server.URL + "/download", "ASSAY_RELEASE_URL=" + server.URL + "/download",
	}, checksum
}

// TestCIInstall downloads a release from a server, with the right checksum and with wrong ones.
func TestCIInstall(t *testing.T) {
	tools(t, "bash", "curl")
	env, checksum := release(t)
	for setting, wantError := range map[string]string{
		"":                           "",
		"ARCHIVE_SHA256=" + checksum: "",
		"ARCHIVE_SHA256=" + strings.Repeat("0", 64): "does not have the SHA-256 checksum",
		"ARCHIVE_SHA256=abc":                        "no SHA-256 checksum",
		"ASSAY_VERSION=v1.2.4":                      "404",
		"ASSAY_VERSION=v1.2.3/../..":                "not of the form",
		"ASSAY_VERSION=main":                        "not of the form",
		"RELEASE_URL=http://127.0.0.1/":             "Protocol \"http\" not supported or disabled",
	} {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "bash", "ci/assay-ci", "install")
		cmd.Env = append(append(env[:len(env):len(env)], "INSTALL_DIR="+dir), setting)
		out, err := cmd.CombinedOutput()
		if wantError == "" {
			require.NoError(t, err, "%s: %s", setting, out)
			require.FileExists(t, dir+"/assay")
			continue
		}
		require.Error(t, err, setting)
		require.Contains(t, string(out), wantError, setting)
		require.NoFileExists(t, dir+"/assay", setting)
	}

	// The same script in the GitLab template.
	var template map[string]struct {
		BeforeScript []string `yaml:"before_script"`
		Script       []string
	}
	require.NoError(t, yaml.Unmarshal(read(t, "ci/gitlab/assay.yml"), &template))
	job := template[".assay"]
	require.Len(t, job.BeforeScript, 2)
	require.Equal(t, []string{"assay-ci report"}, job.Script)
	tools(t, "dpkg")
	for _, sum := range []string{checksum, strings.Repeat("0", 64), ""} {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "bash", "-e", "-o", "pipefail", "-c", strings.ReplaceAll(strings.ReplaceAll(job.BeforeScript[1], "/tmp/", dir+"/"), "/usr/local/bin", dir))
		cmd.Env = append(env[:len(env):len(env)], "ARCHIVE_SHA256="+sum)
		out, err := cmd.CombinedOutput()
		if sum == checksum {
			require.NoError(t, err, string(out))
			require.FileExists(t, dir+"/assay-ci")
		} else {
			require.Error(t, err)
			require.NoFileExists(t, dir+"/assay-ci")
		}
	}
}

// TestCIAction checks that values reach the scripts of the action only in variables, and that each input is
// used.
func TestCIAction(t *testing.T) {
	var action struct {
		Inputs map[string]struct{ Description string }
		Runs   struct {
			Using string
			Steps []struct {
				Shell, Run string
				Env        map[string]string
			}
		}
	}
	text := read(t, "ci/github/action.yml")
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	require.NoError(t, decoder.Decode(&action))
	require.Equal(t, "composite", action.Runs.Using)
	require.Len(t, action.Runs.Steps, 2)
	script := string(read(t, "ci/assay-ci"))
	documented := string(read(t, "../docs/ci.md"))
	for _, step := range action.Runs.Steps {
		require.NotContains(t, step.Run, "${{", "an expression becomes code")
		require.Equal(t, "bash", step.Shell)
		for name := range step.Env {
			require.Contains(t, script, name)
		}
	}
	for name, input := range action.Inputs {
		require.NotEmpty(t, input.Description, name)
		require.Contains(t, string(text), "inputs."+name, name)
		require.Contains(t, documented, "`"+name+"`", name)
	}
}

// TestShell checks the scripts of releases and CI jobs, where shellcheck is installed.
func TestShell(t *testing.T) {
	tools(t, "shellcheck")
	files := []string{"ci/assay-ci", "debian/postinst", "debian/prerm", "debian/postrm", "../scripts/release", "../scripts/check-release"}
	out, err := exec.CommandContext(t.Context(), "shellcheck", files...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// tools skips the test if a program is not installed.
func tools(t *testing.T, names ...string) {
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is not installed")
		}
	}
}
