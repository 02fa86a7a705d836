// SPDX-License-Identifier: Apache-2.0

package source

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/codebase/source/gittest"
)

func newChange(commit string) *Change {
	return &Change{
		Branch: "assay/fix-1", Base: "main", Commit: commit, Title: "Fix a span name", Body: "**body**",
		Files: []File{{"a/main.go", []byte("package main\r\n\n// caf\xe9\n")}, {"run.sh", []byte("#!/bin/sh\n")}, {"new/--file", []byte("x")}},
		Time:  time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC),
	}
}

// allowPushes has a repository accept pushes over HTTP, and a branch named like the test's.
func allowPushes(t *testing.T, dir string) {
	gittest.Git(t, dir, "config", "http.receivepack", "true")
}

func TestPush(t *testing.T) {
	server := newGitServer(t)
	dir := newRepository(t, filepath.Join(server.Root, "acme", "shop.git"), map[string]string{
		"a/main.go": "package main\n", "run.sh": "", "other.txt": "same\r\n", ".gitattributes": "* text=auto eol=lf\n*.go filter=evil\n",
	})
	gittest.Git(t, dir, "update-index", "--chmod=+x", "run.sh")
	gittest.Git(t, dir, "commit", "--quiet", "--message=mode")
	head := gittest.Git(t, dir, "rev-parse", "HEAD")
	allowPushes(t, dir)
	s := newSources(t, func(c *Config) { c.CAFile = server.CA })
	i := &assay.Installation{ID: "i", Provider: KindGit, Write: true}
	var err error
	i.Credential, err = s.Seal(i.ID, Credential{Token: testToken})
	require.NoError(t, err)
	r := &assay.Repository{FullName: "acme/shop", URL: server.url("acme/shop.git")}
	publish := func(ch *Change) (*Published, error) { return s.Publish(t.Context(), i, r, ch, t.TempDir()) }

	p, err := publish(newChange(head))
	require.NoError(t, err)
	require.Nil(t, p.Pull)
	require.Equal(t, p.Commit, gittest.Git(t, dir, "rev-parse", "assay/fix-1"))
	require.Equal(t, head, gittest.Git(t, dir, "rev-parse", "assay/fix-1^"))
	require.Equal(t, "M\ta/main.go\nA\tnew/--file\nM\trun.sh", gittest.Git(t, dir, "diff", "--name-status", head, "assay/fix-1"))
	require.Equal(t, "package main\r\n\n// caf\xe9", gittest.Git(t, dir, "show", "assay/fix-1:a/main.go"), "no attribute of the repository has an effect")
	require.Contains(t, gittest.Git(t, dir, "ls-tree", "assay/fix-1", "run.sh"), "100755")
	require.Equal(t, "Fix a span name|assay|2026-11-21T09:30:00+00:00", gittest.Git(t, dir, "log", "-1", "--format=%s|%an|%cI", "assay/fix-1"))
	require.Equal(t, head, gittest.Git(t, dir, "rev-parse", "main"))

	again, err := publish(newChange(head))
	require.NoError(t, err)
	require.Equal(t, p.Commit, again.Commit, "a repetition makes the same commit")

	// A later run replaces the branch.
	next := gittest.Commit(t, dir, map[string]string{"later.txt": "x"})
	replaced, err := publish(newChange(next))
	require.NoError(t, err)
	require.Equal(t, next, gittest.Git(t, dir, "rev-parse", "assay/fix-1^"))
	require.Equal(t, replaced.Commit, gittest.Git(t, dir, "rev-parse", "assay/fix-1"))
	// The commit need not be the tip of its branch if the host serves other commits.
	_, err = publish(newChange(head))
	require.NoError(t, err)
	_, err = publish(newChange(strings.Repeat("0", 40)))
	require.Contains(t, detail(err), "has moved on")

	// A branch with other commits is not replaced.
	gittest.Git(t, dir, "checkout", "--quiet", "assay/fix-1")
	others := gittest.Commit(t, dir, map[string]string{"mine.txt": "x"})
	gittest.Git(t, dir, "checkout", "--quiet", "main")
	_, err = publish(newChange(next))
	require.Contains(t, detail(err), "has commits of others")
	require.Equal(t, others, gittest.Git(t, dir, "rev-parse", "assay/fix-1"))

	gittest.Git(t, dir, "config", "http.receivepack", "false")
	other := newChange(next)
	other.Branch = "assay/fix-2"
	_, err = publish(other)
	require.Contains(t, detail(err), "denies access")
	i.Write = false
	_, err = publish(other)
	require.Contains(t, detail(err), "no write access")
	i.Write = true
	for name, change := range map[string]func(*Change){
		"another branch": func(c *Change) { c.Branch = "main" },
		"an option":      func(c *Change) { c.Branch = "assay/x:refs/heads/main" },
		"no commit":      func(c *Change) { c.Commit = "HEAD" },
		"no file":        func(c *Change) { c.Files = nil },
		"outside":        func(c *Change) { c.Files[0].Path = "../x" },
		"git's files":    func(c *Change) { c.Files[0].Path = ".git/config" },
		"a line":         func(c *Change) { c.Files[0].Path = "a\x00b" },
		"a directory":    func(c *Change) { c.Files[0].Path = "a" },
	} {
		bad := newChange(next)
		bad.Branch = "assay/bad"
		change(bad)
		_, err := publish(bad)
		require.Error(t, err, name)
	}
	require.Equal(t, "assay/fix-1\nmain", gittest.Git(t, dir, "branch", "--format=%(refname:short)"))
}

func TestPulls(t *testing.T) {
	for kind, want := range map[string]struct{ list, one, page, create, update, found, closed string }{
		KindGitHub: {
			"/api/v3/repos/acme/shop/pulls", "/api/v3/repos/acme/shop/pulls/7", "acme/shop/pull/7",
			`{"title":"Fix a span name","body":"**body**","head":"assay/fix-1","base":"main"}`, `{"title":"Fix a span name","body":"**body**"}`,
			`[{"number":6,"state":"open","head":{"ref":"assay/fix-1","repo":{"full_name":"fork/shop"}}},{"number":7,"state":"open","head":{"ref":"assay/fix-1","repo":{"full_name":"acme/shop"}}}]`,
			`{"number":7,"state":"closed","merged":true,"merged_at":"2026-11-21T10:00:00Z"}`,
		},
		KindGitLab: {
			"/api/v4/projects/acme/shop/merge_requests", "/api/v4/projects/acme/shop/merge_requests/7", "acme/shop/-/merge_requests/7",
			`{"title":"Fix a span name","description":"**body**","source_branch":"assay/fix-1","target_branch":"main"}`, `{"title":"Fix a span name","description":"**body**"}`,
			`[{"iid":6,"state":"opened","source_branch":"assay/fix-1","source_project_id":9,"target_project_id":1},{"iid":7,"state":"opened","source_branch":"assay/fix-1","source_project_id":1,"target_project_id":1}]`, `{"iid":7,"state":"merged"}`,
		},
		KindGitea: {
			"/api/v1/repos/acme/shop/pulls", "/api/v1/repos/acme/shop/pulls/7", "acme/shop/pulls/7",
			`{"title":"Fix a span name","body":"**body**","head":"assay/fix-1","base":"main"}`, `{"title":"Fix a span name","body":"**body**"}`,
			`[{"number":5,"state":"open","head":{"ref":"feature","repo":{"full_name":"acme/shop"}}},{"number":7,"state":"open","head":{"ref":"assay/fix-1","repo":{"full_name":"acme/shop"}}}]`,
			`{"number":7,"state":"closed","merged":true}`,
		},
	} {
		t.Run(kind, func(t *testing.T) {
			f := newTestForge(t)
			dir := filepath.Join(f.Root, "acme", "shop.git")
			allowPushes(t, dir)
			var bodies []string
			usual := f.api
			f.api = func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet && strings.HasPrefix(r.URL.Path, want.list) {
					text, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					f.mu.Lock()
					bodies = append(bodies, r.Method+" "+r.URL.Path+" "+string(text))
					f.mu.Unlock()
				}
				usual(w, r)
			}
			s := f.sources(nil)
			i := &assay.Installation{ID: "i", Provider: kind, ExternalID: "42", Status: assay.InstallationActive, Write: true}
			var err error
			i.Credential, err = s.Seal(i.ID, Credential{Username: "oauth2", Token: testToken})
			require.NoError(t, err)
			r, ok := s.Named(kind, "acme/shop")
			require.True(t, ok)
			ch := newChange(gittest.Git(t, dir, "rev-parse", "HEAD"))
			open := &Pull{7, f.url(want.page), assay.PullOpen}
			answer := `{"number":7,"iid":7,"state":"open","html_url":"javascript:alert(1)"}`

			f.set("GET "+want.list, `[]`)
			f.set("POST "+want.list, answer)
			p, err := s.Publish(t.Context(), i, r, ch, t.TempDir())
			require.NoError(t, err)
			require.Equal(t, open, p.Pull, "with a URL of the configured host")
			require.Equal(t, p.Commit, gittest.Git(t, dir, "rev-parse", "assay/fix-1"))

			f.set("GET "+want.list, want.found)
			for _, method := range []string{"PATCH", "PUT"} {
				f.set(method+" "+want.one, answer)
			}
			p, err = s.Publish(t.Context(), i, r, ch, t.TempDir())
			require.NoError(t, err)
			require.Equal(t, open, p.Pull)
			f.mu.Lock()
			require.Len(t, bodies, 2)
			method, sent, _ := strings.Cut(bodies[0], " ")
			require.Equal(t, "POST", method)
			require.JSONEq(t, want.create, sent[strings.IndexByte(sent, '{'):])
			require.Contains(t, bodies[1], want.one+" ")
			require.JSONEq(t, want.update, bodies[1][strings.IndexByte(bodies[1], '{'):])
			if kind == KindGitHub {
				require.JSONEq(t, `{"repositories":["shop"],"permissions":{"contents":"write","pull_requests":"write"}}`, f.minted[len(f.minted)-1])
			}
			f.mu.Unlock()

			f.set("GET "+want.one, want.closed)
			pull, err := s.Pull(t.Context(), i, r, 7)
			require.NoError(t, err)
			require.Equal(t, assay.PullMerged, pull.State)
			if kind == KindGitHub {
				f.mu.Lock()
				require.JSONEq(t, `{"repositories":["shop"],"permissions":{"pull_requests":"read"}}`, f.minted[len(f.minted)-1])
				f.mu.Unlock()
			}
			f.set("GET "+want.one, `{"number":7,"iid":7,"state":"closed"}`)
			pull, err = s.Pull(t.Context(), i, r, 7)
			require.NoError(t, err)
			require.Equal(t, assay.PullClosed, pull.State)

			f.set("GET "+want.list, `[]`)
			for _, bad := range []string{`{}`, `{"number":-1,"iid":-1}`, `[]`, `422 X:y`} {
				f.set("POST "+want.list, bad)
				_, err = s.Publish(t.Context(), i, r, ch, t.TempDir())
				require.Error(t, err, bad)
				require.NotContains(t, err.Error(), "secret of the host")
			}
		})
	}
	_, err := newSources(t, func(*Config) {}).Pull(t.Context(), &assay.Installation{Provider: KindGit}, &assay.Repository{URL: "https://example.com/a"}, 1)
	require.ErrorContains(t, err, "not configured")
}

func TestWriteScopes(t *testing.T) {
	s := newTestForge(t).sources(nil)
	for kind, scope := range map[string]string{KindGitLab: "api+write_repository", KindGitea: "read%3Auser+write%3Arepository"} {
		page, err := s.AuthorizeURL(kind, "s", "v", testCallback, true)
		require.NoError(t, err)
		require.Contains(t, page, "scope="+scope+"&")
		page, err = s.AuthorizeURL(kind, "s", "v", testCallback, false)
		require.NoError(t, err)
		require.NotContains(t, page, "write")
	}
}
