// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay"
	"assay/internal/auth"
	"assay/internal/codebase/sandbox"
	"assay/internal/codebase/source/gittest"
)

func TestMain(m *testing.M) {
	sandbox.Main()
	goleak.VerifyTestMain(m)
}

const testToken = gittest.Token

var testLimits = Limits{Bytes: 8 << 20, Files: 1000, Time: time.Minute}

// newRepository creates a repository with files.
func newRepository(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	gittest.Git(t, dir, "init", "--quiet", "--initial-branch=main")
	gittest.Commit(t, dir, files)
	return dir
}

// gitServer is a git server whose answers tests can replace.
type gitServer struct {
	*gittest.Server
	requests atomic.Int64
	open     bool // without a password
	answer   http.HandlerFunc
	api      http.HandlerFunc // API of a forge, for paths other than those of git
}

func newGitServer(t *testing.T) *gitServer {
	s := new(gitServer)
	s.Server = gittest.Start(t, func(git http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.requests.Add(1)
			switch {
			case s.answer != nil:
				s.answer(w, r)
				return
			case s.api != nil && !strings.Contains(r.URL.Path, ".git/"):
				s.api(w, r)
				return
			case s.open:
				r.SetBasicAuth("", testToken)
			}
			git.ServeHTTP(w, r)
		})
	})
	return s
}

// url returns the URL of a repository. The server's certificate has the name example.com.
func (s *gitServer) url(name string) string {
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return "https://example.com:" + port + "/" + name
}

// newSources returns Sources that resolve example.com to this machine.
func newSources(t *testing.T, change func(*Config)) *Sources {
	t.Helper()
	cfg := Config{Limits: testLimits, WorkDir: t.TempDir(), PrivateHosts: true, Secret: auth.Secret(strings.Repeat("k", 32))}
	change(&cfg)
	s, err := New(cfg)
	require.NoError(t, err)
	s.hosts[KindGit].(*gitHost).git.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "example.com":
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		case "mixed.example.com":
			return []netip.Addr{netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("10.0.0.1")}, nil
		}
		return nil, fmt.Errorf("no such host")
	}
	t.Cleanup(func() {
		left, err := os.ReadDir(cfg.WorkDir)
		require.NoError(t, err)
		require.Empty(t, left, "private directories stay")
	})
	return s
}

// detail returns the details of a coded error.
func detail(err error) string {
	var coded *assay.Error
	if err == nil {
		return "no error"
	}
	if !asError(err, &coded) {
		return err.Error()
	}
	text := coded.Message
	for field, d := range coded.Details {
		text += "; " + field + " " + d
	}
	return text
}

func TestGit(t *testing.T) {
	server := newGitServer(t)
	dir := newRepository(t, filepath.Join(server.Root, "acme", "shop.git"), map[string]string{"main.go": "package main\n", "--upload-pack=x": "y", "a/-rf": "z"})
	first := gittest.Git(t, dir, "rev-parse", "HEAD")
	s := newSources(t, func(c *Config) { c.CAFile = server.CA })

	r := &Request{Kind: KindGit, URL: server.url("acme/shop.git"), Credential: Credential{Token: testToken}}
	c, err := s.Connect(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, KindGit, c.Provider)
	require.Equal(t, strings.TrimSuffix(strings.TrimPrefix(server.url("acme"), "https://"), "/"), c.Account)
	require.Equal(t, []*assay.Repository{{FullName: "acme/shop", URL: r.URL, DefaultBranch: "main", Access: "granted"}}, c.Repositories)
	i := &assay.Installation{ID: "i", Provider: KindGit}
	i.Credential, err = s.Seal(i.ID, c.Credential)
	require.NoError(t, err)
	require.NotContains(t, string(i.Credential), testToken)

	second := gittest.Commit(t, dir, map[string]string{"new.go": "package main\n"})
	for _, want := range []Want{{}, {Ref: "main"}, {Commit: first}, {Commit: strings.Repeat("0", 40)}} {
		to := t.TempDir()
		got, err := s.Checkout(t.Context(), i, c.Repositories[0], want, to)
		require.NoError(t, err)
		commit := second
		if want.Commit == first {
			commit = first
		}
		require.Equal(t, &Checkout{Dir: filepath.Join(to, "files"), DefaultBranch: "main", Commit: commit}, got)
		text, err := os.ReadFile(filepath.Join(got.Dir, "--upload-pack=x"))
		require.NoError(t, err)
		require.Equal(t, "y", string(text))
		_, err = os.Stat(filepath.Join(got.Dir, ".git"))
		require.ErrorIs(t, err, os.ErrNotExist)
		_, err = os.Stat(filepath.Join(got.Dir, "new.go"))
		require.Equal(t, commit == second, err == nil)
	}

	for name, c := range map[string]struct {
		change func(*Request)
		want   string
	}{
		"wrong token":      {func(r *Request) { r.Credential.Token = "other-token" }, "rejected the credential"},
		"no token":         {func(r *Request) { r.Credential.Token = "" }, "needs a credential"},
		"no repository":    {func(r *Request) { r.URL = server.url("acme/none.git") }, "does not exist"},
		"no host":          {func(r *Request) { r.URL = "https://nowhere.example.com/a" }, "does not exist"},
		"another host":     {func(r *Request) { r.URL = strings.Replace(r.URL, "example.com", "127.0.0.1:1", 1) }, "url "},
		"line in a token":  {func(r *Request) { r.Credential.Token = "a\n[http]" }, "token must"},
		"key for https":    {func(r *Request) { r.Credential = Credential{SSHKey: "-----BEGIN X-----"} }, "ssh_key is for ssh"},
		"unknown kind":     {func(r *Request) { r.Kind = "svn" }, "kind must"},
		"token in the URL": {func(r *Request) { r.URL = strings.Replace(r.URL, "//", "//u:secret-p@", 1) }, "without a user"},
	} {
		bad := *r
		c.change(&bad)
		_, err := s.Connect(t.Context(), &bad)
		require.Contains(t, detail(err), c.want, name)
		for _, secret := range []string{testToken, "other-token", "secret-p"} {
			require.NotContains(t, detail(err)+err.Error(), secret, name)
		}
	}

	unsealed := newSources(t, func(c *Config) { c.CAFile, c.Secret = server.CA, "" })
	_, err = unsealed.Connect(t.Context(), r)
	require.Contains(t, detail(err), "--secret-key-file")
	_, err = unsealed.Checkout(t.Context(), i, &assay.Repository{URL: r.URL}, Want{}, t.TempDir())
	require.Contains(t, detail(err), "cannot be decrypted")
	strangers := newSources(t, func(*Config) {})
	_, err = strangers.Connect(t.Context(), r)
	require.Contains(t, detail(err), "certificate")
}

// TestPrivateAddresses: names and addresses of private networks are rejected before a connection.
func TestPrivateAddresses(t *testing.T) {
	server := newGitServer(t)
	s := newSources(t, func(c *Config) { c.CAFile, c.PrivateHosts = server.CA, false })
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for _, host := range []string{
		"example.com", "mixed.example.com", "nowhere.example.com", "127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]",
		"[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.0.0.1.", "localhost",
	} {
		for _, url := range []string{"https://" + host + ":" + port + "/a", "ssh://git@" + host + ":" + port + "/a"} {
			c := Credential{}
			if strings.HasPrefix(url, "ssh") {
				c.SSHKey = "-----BEGIN KEY-----"
			}
			_, err := s.Connect(t.Context(), &Request{Kind: KindGit, URL: url, Credential: c})
			require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err), url)
			require.Contains(t, detail(err), "url ", url)
			if strings.HasSuffix(host, "example.com") {
				require.Contains(t, detail(err), errPrivate.Error(), "names of private networks are not revealed")
			}
		}
	}
	require.Zero(t, server.requests.Load())
}

// TestRedirects: git does not follow a redirect in any of its requests.
func TestRedirects(t *testing.T) {
	inner := newGitServer(t)
	inner.open = true
	newRepository(t, filepath.Join(inner.Root, "a"), map[string]string{"f": "x"})
	server := newGitServer(t)
	server.answer = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inner.url("a")+strings.TrimPrefix(r.URL.RequestURI(), "/a"), http.StatusFound)
	}
	s := newSources(t, func(c *Config) { c.CAFile = server.CA })
	_, err := s.Connect(t.Context(), &Request{Kind: KindGit, URL: server.url("a")})
	require.Contains(t, detail(err), "redirects")
	require.Zero(t, inner.requests.Load())
	require.Positive(t, server.requests.Load())
}

// TestHostileRemotes: servers that send invalid answers, or none, cause an error.
func TestHostileRemotes(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"HTML": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"endless refs": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			fmt.Fprint(w, "001e# service=git-upload-pack\n0000")
			for n := 0; r.Context().Err() == nil; n++ {
				line := fmt.Sprintf("%040d refs/heads/%d\n", 1, n)
				if _, err := fmt.Fprintf(w, "%04x%s", len(line)+4, line); err != nil {
					return
				}
			}
		},
		"the token": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, r.Header.Get("Authorization"), " ", testToken)
		},
		"silence": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		server := newGitServer(t) // a handler may outlive its case
		server.answer = answer
		s := newSources(t, func(c *Config) { c.CAFile, c.Limits.Time = server.CA, 3*time.Second })
		_, err := s.Connect(t.Context(), &Request{Kind: KindGit, URL: server.url("a"), Credential: Credential{Token: testToken}})
		require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err), "%s: %v", name, err)
		require.NotContains(t, detail(err), testToken, name)
		require.NotContains(t, detail(err), "Z2l0O", name)
	}
}

// TestManyReferences: servers send more references than fit in the memory limit of ls-remote.
func TestManyReferences(t *testing.T) {
	for n, want := range map[int]string{1_000: "no error", 300_000: "more memory than the limit"} {
		server := newGitServer(t)
		server.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			out := bufio.NewWriter(w) // errors: the client may have ended
			line := func(text string) { _, _ = fmt.Fprintf(out, "%04x%s", len(text)+4, text) }
			line("# service=git-upload-pack\n")
			_, _ = out.WriteString("0000")
			line(fmt.Sprintf("%040d HEAD\x00symref=HEAD:refs/heads/main\n", 1))
			prefix := fmt.Sprintf("%040d refs/heads/%0200d", 1, 0)
			for i := range n {
				line(prefix + strconv.Itoa(i) + "\n")
			}
			_, _ = out.WriteString("0000")
			_ = out.Flush()
		}
		s := newSources(t, func(c *Config) { c.CAFile = server.CA })
		_, err := s.Connect(t.Context(), &Request{Kind: KindGit, URL: server.url("a")})
		require.Contains(t, detail(err), want, n)
	}
}

// TestWithoutGit: a container image from scratch has no git and no ssh.
func TestWithoutGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	require.Error(t, Available(t.Context()))
	s := newSources(t, func(*Config) {})
	for _, r := range []*Request{
		{Kind: KindGit, URL: "https://example.com/shop.git"},
		{Kind: KindGit, URL: "git@example.com:shop.git", Credential: Credential{SSHKey: "-----BEGIN OPENSSH PRIVATE KEY-----"}},
	} {
		_, err := s.Connect(t.Context(), r)
		require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err), "%v", err)
		require.Contains(t, err.Error(), "is not installed on the host of the agent")
	}
}

// TestOldGit: a version of git that ignores the checked addresses is rejected.
func TestOldGit(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	s := newSources(t, func(*Config) {})
	for version, works := range map[string]bool{
		"git version 1.9.1": false, "git version 2.36.6": false, "git version 2.37.0": true, "git version 2.39.5 (Apple Git-154)": true, "git version 2.100.1.windows.1": true,
		"git version 3.0": true, "": false, "version 2.40": false,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\n[ \"$1\" != version ] || echo '"+version+"'\n"), 0o755))
		require.Equal(t, works, Available(t.Context()) == nil, version)
		_, err := s.Connect(t.Context(), &Request{Kind: KindGit, URL: "https://example.com/shop.git"})
		require.Equal(t, works, strings.Contains(err.Error(), "there is no git repository"), "%s: %v", version, err)
		if version == "git version 2.36.6" {
			require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err))
			require.Contains(t, err.Error(), "has the version 2.36, and the agent needs 2.37")
		}
	}
}
