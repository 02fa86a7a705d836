// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"assay"
	"assay/internal/codebase/sandbox"
	"assay/internal/gittree"
)

// gitHost is the kind git: any clone URL.
type gitHost struct{ git *git }

// Connect implements Host.
func (h *gitHost) Connect(ctx context.Context, r *Request) (*Connection, error) {
	remote, err := parseRemote(r.URL)
	if err != nil {
		return nil, err
	}
	if err := r.Credential.check(remote.scheme == "ssh"); err != nil {
		return nil, err
	}
	w, err := h.git.open(ctx, remote, r.Credential)
	if err != nil {
		return nil, err
	}
	defer w.close()
	branch, err := w.defaultBranch(ctx)
	if err != nil {
		return nil, err
	}
	c := &Connection{
		Provider: KindGit, Account: remote.account(), Credential: r.Credential,
		Repositories: []*assay.Repository{{FullName: remote.name(), URL: remote.String(), DefaultBranch: branch, Access: "granted"}},
	}
	if remote.scheme == "ssh" && c.Credential.KnownHosts == "" {
		known, err := os.ReadFile(w.knownHosts())
		if err != nil {
			return nil, err
		}
		c.Credential.KnownHosts = string(known[:min(len(known), maxKey)])
	}
	return c, nil
}

// Checkout implements Host.
func (h *gitHost) Checkout(ctx context.Context, r *assay.Repository, c Credential, want Want, dir string) (*Checkout, error) {
	remote, err := parseRemote(r.URL)
	if err != nil {
		return nil, err
	}
	return h.git.checkout(ctx, remote, c, want, dir)
}

// clone is a local repository of a workspace.
type clone struct {
	*workspace
	ctx context.Context
	dir string
}

// line runs a command and returns its output, without surrounding white space.
func (c *clone) line(input []byte, args ...string) (string, error) {
	out := &sandbox.Buffer{Max: maxRefs}
	err := c.runInput(c.ctx, c.dir, input, out, args...)
	return strings.TrimSpace(out.String()), err
}

func (c *clone) fetch(revision string) error {
	return c.run(c.ctx, c.dir, nil, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", c.remote.String(), revision)
}

// fetched returns the name of the fetched commit.
func (c *clone) fetched() (string, error) {
	commit, err := c.line(nil, "rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}")
	if err == nil && !commitName.MatchString(commit) {
		err = assay.Errorf(assay.CodeUnprocessable, "git returned no commit")
	}
	return commit, err
}

// defaultBranch returns the branch of HEAD, or "" if HEAD is detached.
func (w *workspace) defaultBranch(ctx context.Context) (string, error) {
	out := &sandbox.Buffer{Max: maxRefs}
	if err := w.run(ctx, w.dir, out, "ls-remote", "--symref", "--", w.remote.String(), "HEAD"); err != nil {
		return "", err
	}
	if !strings.Contains(out.String(), "\tHEAD\n") {
		return "", assay.Errorf(assay.CodeUnprocessable, "there is no git repository, or its default branch has no commit")
	}
	for line := range strings.Lines(out.String()) {
		if ref, ok := strings.CutPrefix(line, "ref: refs/heads/"); ok {
			branch, _, _ := strings.Cut(ref, "\t")
			if branchName.MatchString(branch) {
				return branch, nil
			}
			return "", assay.Errorf(assay.CodeUnprocessable, "the name of the default branch is not supported")
		}
	}
	return "", nil
}

var (
	branchName = regexp.MustCompile(`^[A-Za-z0-9_.@#+=/-]{1,200}$`)
	commitName = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)
)

// checkout fetches one commit, checks that its files are within the limits, and writes them below dir.
func (g *git) checkout(ctx context.Context, r *remote, c Credential, want Want, dir string) (*Checkout, error) {
	w, err := g.open(ctx, r, c)
	if err != nil {
		return nil, err
	}
	defer w.close()
	branch, err := w.defaultBranch(ctx)
	if err != nil {
		return nil, err
	}
	ref := "HEAD"
	if want.Ref != "" {
		if !branchName.MatchString(want.Ref) {
			return nil, assay.Errorf(assay.CodeUnprocessable, "the name of the branch is not supported")
		}
		ref = "refs/heads/" + want.Ref
	}
	files := filepath.Join(dir, "files")
	if err := w.run(ctx, w.dir, nil, "init", "--quiet", "--template=", "--initial-branch=assay", files); err != nil {
		return nil, err
	}
	if err := gittree.WriteAttributes(filepath.Join(files, ".git")); err != nil {
		return nil, err
	}
	local := &clone{workspace: w, ctx: ctx, dir: files}
	if !commitName.MatchString(want.Commit) || local.fetch(want.Commit) != nil { // some hosts serve only the tips of branches
		if err := local.fetch(ref); err != nil {
			return nil, err
		}
	}
	commit, err := local.fetched()
	if err != nil {
		return nil, err
	}
	check := &gittree.Check{Files: g.cfg.Limits.Files, Bytes: g.cfg.Limits.Bytes}
	if err := w.run(ctx, files, check, append(slices.Clip(gittree.List), commit)...); err != nil {
		if limit, ok := errors.AsType[*gittree.LimitError](err); ok {
			err = assay.Errorf(assay.CodeUnprocessable, "%s (--agent-max-files, --agent-max-clone-size)", limit)
		}
		return nil, err
	}
	if err := w.run(ctx, files, nil, "checkout", "--quiet", "--force", "--detach", commit); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(files, ".git")); err != nil {
		return nil, err
	}
	return &Checkout{Dir: files, DefaultBranch: branch, Commit: commit}, nil
}
