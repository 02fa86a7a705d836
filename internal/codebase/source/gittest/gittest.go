// SPDX-License-Identifier: Apache-2.0

package gittest

import (
	"encoding/pem"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Token is the password of every user.
const Token = "git-token-0123456789"

// Server serves the repositories of a directory with git http-backend, for reading and writing.
type Server struct {
	*httptest.Server
	Root string // directory of the repositories
	CA   string // file with its certificate in PEM
}

// Start starts a server that ends with the test. wrap returns the handler of all requests from the handler of git, which
// requires Token; nil: there is only git.
func Start(t testing.TB, wrap func(git http.Handler) http.Handler) *Server {
	t.Helper()
	s := &Server{Root: t.TempDir(), CA: filepath.Join(t.TempDir(), "ca.pem")}
	backend := &cgi.Handler{
		Path: filepath.Join(Git(t, s.Root, "--exec-path"), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + s.Root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=2",
			"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=maintenance.auto", "GIT_CONFIG_VALUE_1=false",
		},
	}
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != Token {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		if version := r.Header.Get("Git-Protocol"); version != "" {
			r.Header.Set("GIT_PROTOCOL", version)
		}
		backend.ServeHTTP(w, r)
	})
	if wrap != nil {
		handler = wrap(handler)
	}
	s.Server = httptest.NewTLSServer(handler)
	t.Cleanup(s.Close)
	require.NoError(t, os.WriteFile(s.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644))
	return s
}

// Git runs git in a directory and returns its output. It leaves no process behind: new versions of git would start
// the maintenance of the repository in the background.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "maintenance.auto=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=mona", "GIT_AUTHOR_EMAIL=mona@example.com",
		"GIT_COMMITTER_NAME=mona", "GIT_COMMITTER_EMAIL=mona@example.com", "GIT_AUTHOR_DATE=2026-11-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-11-01T00:00:00Z",
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// Create creates a bare repository below Root with files on the branch main, and returns its directory.
func (s *Server) Create(t testing.TB, name string, files map[string]string) (dir string) {
	t.Helper()
	dir = filepath.Join(s.Root, filepath.FromSlash(name))
	Git(t, s.Root, "init", "--quiet", "--bare", "--initial-branch=main", dir)
	Git(t, dir, "config", "http.receivepack", "true")
	Push(t, dir, files)
	return dir
}

// Push adds a commit with files to the branch main of a bare repository and returns it.
func Push(t testing.TB, dir string, files map[string]string) (commit string) {
	t.Helper()
	work := t.TempDir()
	Git(t, work, "clone", "--quiet", dir, ".")
	commit = Commit(t, work, files)
	Git(t, work, "push", "--quiet", "origin", "HEAD:main")
	return commit
}

// Commit adds a commit with files to a work tree and returns it.
func Commit(t testing.TB, dir string, files map[string]string) (commit string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	Git(t, dir, "add", "--all")
	Git(t, dir, "commit", "--quiet", "--allow-empty", "--message=change")
	return Git(t, dir, "rev-parse", "HEAD")
}
