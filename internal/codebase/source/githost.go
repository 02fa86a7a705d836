// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"assay"
	"assay/internal/codebase/sandbox"
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

// defaultBranch returns the branch of HEAD, "" if HEAD is detached.
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
			return "", assay.Errorf(assay.CodeUnprocessable, "the default branch has an odd name")
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
			return nil, assay.Errorf(assay.CodeUnprocessable, "the branch has an odd name")
		}
		ref = "refs/heads/" + want.Ref
	}
	files := filepath.Join(dir, "files")
	if err := w.run(ctx, w.dir, nil, "init", "--quiet", "--template=", "--initial-branch=assay", files); err != nil {
		return nil, err
	}
	if err := writeAttributes(filepath.Join(files, ".git", "info")); err != nil {
		return nil, err
	}
	fetch := func(what string) error {
		return w.run(ctx, files, nil, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", r.String(), what)
	}
	fetched := false
	if commitName.MatchString(want.Commit) { // some hosts give only tips of branches
		fetched = fetch(want.Commit) == nil
	}
	if !fetched {
		if err := fetch(ref); err != nil {
			return nil, err
		}
	}
	out := &sandbox.Buffer{Max: maxRefs}
	if err := w.run(ctx, files, out, "rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}"); err != nil {
		return nil, err
	}
	commit := strings.TrimSpace(out.String())
	if !commitName.MatchString(commit) {
		return nil, assay.Errorf(assay.CodeUnprocessable, "git returned no commit")
	}
	if err := w.run(ctx, files, &treeCheck{limits: g.cfg.Limits}, "ls-tree", "-r", "-l", "-z", "--full-tree", commit); err != nil {
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

// attributes come before those of the repository: git writes files as they are stored. Keywords and encodings would make
// them many times larger than the sizes that treeCheck counts, and line ends others than those that a change is made of.
const attributes = "* -text -ident -filter !working-tree-encoding\n"

// writeAttributes writes the attributes to the directory info of a repository.
func writeAttributes(info string) error {
	if err := os.MkdirAll(info, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(info, "attributes"), []byte(attributes), 0o600)
}

// treeCheck reads the output of ls-tree and fails when the files or their directories exceed the limits. A tree may list
// files without end, and a file may be in two thousand directories.
type treeCheck struct {
	limits      Limits
	record      []byte
	path        string // of the file before
	files       int
	directories int
	bytes       int64
}

const maxRecord = 8 << 10 // bytes of a line of ls-tree: a path that no file system takes is longer

var errTree = errors.New("the output of ls-tree is malformed")

// Write implements io.Writer.
func (t *treeCheck) Write(p []byte) (int, error) {
	for i, b := range p {
		if b != 0 {
			if len(t.record) == maxRecord {
				return i, assay.Errorf(assay.CodeUnprocessable, "the repository has file names that are too long")
			}
			t.record = append(t.record, b)
			continue
		}
		if err := t.add(string(t.record)); err != nil {
			return i, err
		}
		t.record = t.record[:0]
	}
	return len(p), nil
}

// add counts a file: mode, type, object and size, a tab, the path.
func (t *treeCheck) add(record string) error {
	head, path, ok := strings.Cut(record, "\t")
	fields := strings.Fields(head)
	if !ok || len(fields) != 4 {
		return errTree
	}
	if t.files++; t.files > t.limits.Files {
		return assay.Errorf(assay.CodeUnprocessable, "the repository has more than %d files (--agent-max-files)", t.limits.Files)
	}
	if t.directories += newDirectories(t.path, path); t.directories > t.limits.Files {
		return assay.Errorf(assay.CodeUnprocessable, "the repository has more than %d directories (--agent-max-files)", t.limits.Files)
	}
	t.path = path
	if fields[1] != "blob" { // a submodule, which is not fetched
		return nil
	}
	size, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil || size < 0 {
		return errTree
	}
	if t.bytes += size; t.bytes > t.limits.Bytes || t.bytes < 0 {
		return assay.Errorf(assay.CodeUnprocessable, "the files of the repository have more than %d bytes (--agent-max-clone-size)", t.limits.Bytes)
	}
	return nil
}

// newDirectories returns the number of directories of a path that the path before it does not have. The files of a
// directory follow each other.
func newDirectories(before, path string) int {
	common := 0 // bytes of the directories that both have
	for i := range min(len(before), len(path)) {
		if before[i] != path[i] {
			break
		}
		if path[i] == '/' {
			common = i + 1
		}
	}
	return strings.Count(path[common:], "/")
}
