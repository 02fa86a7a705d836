// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"assay"
)

// BranchPrefix begins the names of the branches that runs push.
const BranchPrefix = "assay/"

// committer is the author and committer of pushed commits. A branch whose newest commit has another committer contains
// other work and is not replaced.
const committer = "assay <assay@users.noreply.invalid>"

// Change is the change that a run publishes.
type Change struct {
	Branch string // begins with BranchPrefix
	Base   string // branch that the change is for
	Commit string // of Base, the parent of the new commit
	Title  string // one line of plain text
	Body   string // of the pull request, Markdown
	Files  []File
	Time   time.Time // time of the commit, so that a retry creates the same commit
}

// File is a file after a change.
type File struct {
	Path    string // below the root, with slashes
	Content []byte
}

// Published is the location of a change.
type Published struct {
	Commit string
	Pull   *Pull // nil if the source host has no API
}

// Publish pushes a change to its branch, and opens a pull request if the source host has an API. It replaces the branch
// and updates the open pull request of an earlier change with the same branch. It may write below dir, an empty
// directory that the caller removes. It returns an error if the installation has no write access.
func (s *Sources) Publish(ctx context.Context, i *assay.Installation, r *assay.Repository, ch *Change, dir string) (*Published, error) {
	if !i.Write {
		return nil, assay.Errorf(assay.CodeUnprocessable, "the installation gives no write access")
	}
	kind, c, f, err := s.access(ctx, i, r, toPublish)
	if err != nil {
		return nil, err
	}
	host, ok := s.hosts[kind].(*gitHost)
	if !ok {
		return nil, assay.Errorf(assay.CodeUnprocessable, "branches cannot be pushed to this kind of source")
	}
	remote, err := parseRemote(r.URL)
	if err != nil {
		return nil, err
	}
	p := new(Published)
	if p.Commit, err = host.git.push(ctx, remote, c, ch, dir); err != nil || f == nil {
		return p, err
	}
	p.Pull, err = f.host().propose(ctx, r, c.Token, ch)
	return p, err
}

// push pushes one commit on top of ch.Commit. It writes objects without a work tree, so that attributes, filters and
// hooks of the repository have no effect.
func (g *git) push(ctx context.Context, r *remote, c Credential, ch *Change, dir string) (string, error) {
	if !strings.HasPrefix(ch.Branch, BranchPrefix) || !branchName.MatchString(ch.Branch) || !commitName.MatchString(ch.Commit) || len(ch.Files) == 0 {
		return "", fmt.Errorf("invalid change for the branch %q", ch.Branch)
	}
	w, err := g.open(ctx, r, c)
	if err != nil {
		return "", err
	}
	defer w.close()
	p := &clone{workspace: w, ctx: ctx, dir: filepath.Join(dir, "objects")}
	if err := w.run(ctx, w.dir, nil, "init", "--quiet", "--bare", "--template=", p.dir); err != nil {
		return "", err
	}
	if err := p.fetch(ch.Commit); err != nil {
		// Some hosts serve only the tips of branches.
		if err := p.fetch("refs/heads/" + ch.Base); err != nil {
			return "", err
		}
	}
	at, err := p.fetched()
	if err == nil && at != ch.Commit {
		err = assay.Errorf(assay.CodeUnprocessable, "the branch has moved on meanwhile; start the run again")
	}
	if err != nil {
		return "", err
	}
	commit, err := p.commit(ch)
	if err != nil {
		return "", err
	}
	ref := "refs/heads/" + ch.Branch
	old, err := p.line(nil, "ls-remote", "--", r.String(), ref)
	if err != nil {
		return "", err
	}
	old, _, _ = strings.Cut(old, "\t")
	switch {
	case old == commit:
		return commit, nil
	case old != "" && !commitName.MatchString(old):
		return "", assay.Errorf(assay.CodeUnprocessable, "git returned no commit")
	case old != "":
		if err := p.fetch(ref); err != nil {
			return "", err
		}
		author, err := p.line(nil, "show", "--no-patch", "--format=%cn <%ce>", "FETCH_HEAD")
		if err != nil {
			return "", err
		}
		if author != committer {
			return "", assay.Errorf(assay.CodeUnprocessable, "the branch %s has commits of others; merge or delete it first", ch.Branch)
		}
	}
	// The remote rejects the push if the branch has changed since ls-remote.
	return commit, p.run(ctx, p.dir, nil, "push", "--quiet", "--no-verify", "--no-recurse-submodules", "--force-with-lease="+ref+":"+old, "--", r.String(), commit+":"+ref)
}

// commit writes the commit of a change and returns its name.
func (p *clone) commit(ch *Change) (string, error) {
	if err := p.run(p.ctx, p.dir, nil, "read-tree", ch.Commit); err != nil {
		return "", err
	}
	var index bytes.Buffer
	for _, f := range ch.Files {
		mode, err := p.mode(ch.Commit, f.Path)
		if err != nil {
			return "", err
		}
		blob, err := p.line(f.Content, "hash-object", "-w", "--stdin")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&index, "%s %s\t%s\x00", mode, blob, f.Path)
	}
	if err := p.runInput(p.ctx, p.dir, index.Bytes(), nil, "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	tree, err := p.line(nil, "write-tree")
	if err != nil {
		return "", err
	}
	at := fmt.Sprintf("%s %d +0000", committer, ch.Time.Unix())
	text := fmt.Sprintf("tree %s\nparent %s\nauthor %s\ncommitter %s\n\n%s\n", tree, ch.Commit, at, at, ch.Title)
	return p.line([]byte(text), "hash-object", "-w", "-t", "commit", "--stdin")
}

// mode returns the mode of a file in a commit, or the mode of a new file if the commit does not contain it.
func (p *clone) mode(commit, path string) (string, error) {
	const regular, executable = "100644", "100755"
	if !filepath.IsLocal(filepath.FromSlash(path)) || strings.ContainsAny(path, "\x00") {
		return "", fmt.Errorf("change a file: %q is not a path in the repository", path)
	}
	entry, err := p.line(nil, "--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit, "--", path)
	if err != nil || entry == "" {
		return regular, err
	}
	mode, _, _ := strings.Cut(entry, " ")
	if mode != regular && mode != executable {
		return "", fmt.Errorf("change a file: %q is not a regular file", path)
	}
	return mode, nil
}
