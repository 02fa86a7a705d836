// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lineRange is a range of lines, counted from 1, including first and last. For removed lines, it is empty: first is the
// line after them, and last the line before them.
type lineRange struct{ first, last int }

// changes holds the lines that differ from a commit, by path below the root.
type changes map[string][]lineRange

// touch reports whether any line of a range has changed, or lines in it were removed.
func (c changes) touch(file string, first, last int) bool {
	return slices.ContainsFunc(c[file], func(r lineRange) bool { return r.first <= last && first <= r.last })
}

// since holds the differences between a commit and the files to review.
type since struct {
	git     *git
	commit  string
	changes changes
	// before maps the paths of changed and removed files, below the root to review, to their paths in the commit, from
	// the root of the repository. It omits paths that a review skips, such as those of tests.
	before map[string]string
}

// read returns a file of the commit.
func (s *since) read(ctx context.Context, path string) (text []byte, err error) {
	err = s.git.run(ctx, func(r io.Reader) error {
		if text, err = io.ReadAll(io.LimitReader(r, maxFileSize+1)); err == nil && len(text) > maxFileSize {
			err = errTooLarge
		}
		return err
	}, "cat-file", "blob", s.commit+":"+path)
	return text, err
}

// maxChanged is the maximum number of ranges of changed lines.
const maxChanged = 1_000_000

// gitError is an error of git, or an invalid reference.
type gitError struct{ error }

func (e gitError) Unwrap() error { return e.error }

// gitTimeout limits a git command. The configuration and references of a repository may be named pipes, on which git
// blocks.
const gitTimeout = 2 * time.Minute

// changedSince returns the differences between a commit and the work tree that contains the root. Untracked files are
// new.
func changedSince(ctx context.Context, root, ref string) (*since, error) {
	g := &git{root: root}
	if err := g.filters(ctx); err != nil {
		return nil, err
	}
	commit, err := g.commit(ctx, ref)
	if err != nil {
		return nil, err
	}
	prefix, err := g.output(ctx, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, err
	}
	s := &since{git: g, commit: commit, changes: changes{}, before: map[string]string{}}
	// Compare the whole repository, because a file below the root may have been renamed from outside of it. Attributes
	// may declare source files as binary, so compare all files as text.
	err = g.run(ctx, func(r io.Reader) error { return parseDiff(r, strings.TrimSuffix(string(prefix), "\n"), s) },
		"diff", "--text", "--unified=0", "--inter-hunk-context=0", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--ignore-submodules=all",
		"--no-relative", "--src-prefix=a/", "--dst-prefix=b/", commit, "--")
	if err != nil {
		return nil, err
	}
	untracked, err := g.output(ctx, "ls-files", "-z", "--others", "--exclude-standard", "--", ".")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(string(untracked), "\x00") {
		if name != "" {
			s.changes[name] = []lineRange{{1, maxFileSize}}
		}
	}
	// Git compares files with the attribute ident without the text between $Id: and $, which may be code.
	expanded, err := g.output(ctx, "ls-files", "-z", "--", ":(attr:ident)")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(string(expanded), "\x00") {
		if name != "" && s.changes[name] == nil {
			s.changes[name] = []lineRange{{maxFileSize, maxFileSize}} // report findings that the commit does not have
			s.before[name] = strings.TrimSuffix(string(prefix), "\n") + name
		}
	}
	return s, nil
}

// git runs the git binary on the repository of a directory. It does not read the configuration of the system and the
// user. It executes nothing that the repository configures: no hooks, monitors, filters, diff programs or transports.
type git struct {
	root    string
	config  [][2]string // names and values that override those of the repository
	env     []string
	timeout time.Duration // of a command; default gitTimeout
}

// commit returns the id of the commit that a reference names.
func (g *git) commit(ctx context.Context, ref string) (string, error) {
	if ref == "" || strings.HasPrefix(ref, "-") || strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", gitError{fmt.Errorf("%q is not a Git reference", ref)}
	}
	id, err := g.output(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if exitedWith(err, 1) {
		err = gitError{fmt.Errorf("there is no commit %s in the repository", ref)}
	}
	return strings.TrimSpace(string(id)), err
}

// exitedWith reports whether a command failed with this exit status.
func exitedWith(err error, status int) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == status
}

// hardened is the configuration of every git command.
var hardened = [][2]string{
	{"core.hooksPath", os.DevNull},
	{"core.fsmonitor", "false"},
	{"core.untrackedCache", "false"},
	{"core.attributesFile", os.DevNull},
	{"core.excludesFile", os.DevNull},
	{"core.quotePath", "false"},
	{"diff.orderFile", os.DevNull},
	{"protocol.allow", "never"},
	{"submodule.recurse", "false"},
	{"safe.directory", "*"}, // nothing of the repository is executed, so its owner does not matter
	// Do not accept a bare repository in a directory of the work tree.
	{"safe.bareRepository", "explicit"},
}

// filters overrides the filter programs of the repository's configuration, which `git diff` would run on files.
func (g *git) filters(ctx context.Context) error {
	names, err := g.output(ctx, "config", "--includes", "--null", "--name-only", "--get-regexp", `^filter\.`)
	if exitedWith(err, 1) { // there are none
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(string(names), "\x00") {
		switch {
		case strings.HasSuffix(name, ".clean"), strings.HasSuffix(name, ".smudge"), strings.HasSuffix(name, ".process"):
			g.config = append(g.config, [2]string{name, ""})
		case strings.HasSuffix(name, ".required"):
			g.config = append(g.config, [2]string{name, "false"})
		}
	}
	return nil
}

// run calls read with the output of a git command.
func (g *git) run(ctx context.Context, read func(io.Reader) error, args ...string) error {
	limit := cmp.Or(g.timeout, gitTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, gitError{fmt.Errorf("git %s did not finish within %v", args[0], limit)})
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", g.root, "--no-pager", "--no-optional-locks"}, args...)...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + os.DevNull,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1",
	}
	cmd.Env = append(cmd.Env, g.env...)
	config := slices.Concat(hardened, g.config)
	cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(config)))
	for i, c := range config {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, c[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, c[1]))
	}
	if root := os.Getenv("SYSTEMROOT"); root != "" { // programs do not start without it on Windows
		cmd.Env = append(cmd.Env, "SYSTEMROOT="+root)
	}
	message := &limited{left: 2 << 10}
	cmd.Stderr = message
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			err = errors.New("the program git is not installed")
		}
		return gitError{err}
	}
	readErr := read(out)
	if readErr != nil {
		cancel()
	}
	waitErr := cmd.Wait()
	switch {
	case ctx.Err() != nil && readErr == nil:
		return context.Cause(ctx)
	case readErr != nil:
		return readErr
	case waitErr != nil:
		if text := bytes.TrimSpace(message.text); len(text) > 0 {
			return gitError{fmt.Errorf("git %s: %w: %s", args[0], waitErr, text)}
		}
		return gitError{fmt.Errorf("git %s: %w", args[0], waitErr)}
	}
	return nil
}

// maxOutput is the maximum size of a list that git prints.
const maxOutput = 64 << 20

// output returns the output of a git command.
func (g *git) output(ctx context.Context, args ...string) (text []byte, err error) {
	err = g.run(ctx, func(r io.Reader) error {
		if text, err = io.ReadAll(io.LimitReader(r, maxOutput+1)); err == nil && len(text) > maxOutput {
			err = gitError{fmt.Errorf("git %s prints more than %d bytes", args[0], maxOutput)}
		}
		return err
	}, args...)
	return text, err
}

// limited keeps the first bytes written to it.
type limited struct {
	text []byte
	left int
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.text, l.left = append(l.text, p[:n]...), l.left-n
	return len(p), nil
}

// parseDiff adds the changed lines of a diff without context to s, and the former paths of its files. All lines of a
// file have changed if a review skips its former path. It reads only files whose path begins with prefix, and removes
// the prefix.
func parseDiff(r io.Reader, prefix string, s *since) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	file, before := "", ""
	moved := false          // from a path that a review skips
	ranges, content := 0, 0 // content is the number of remaining lines of the hunk
	for {
		line, more, err := lines.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line = bytes.Clone(line[:min(len(line), 4*maxPath)]) // a quoted byte takes four
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
		if content > 0 {
			if len(line) > 0 && (line[0] == '+' || line[0] == '-') {
				content--
			}
			continue
		}
		if name, ok := bytes.CutPrefix(line, []byte("rename from ")); ok {
			moved = Skipped(diffName(string(name), ""), nil) != ""
			continue
		}
		if name, ok := bytes.CutPrefix(line, []byte("rename to ")); ok {
			if rest, ok := strings.CutPrefix(diffName(string(name), ""), prefix); ok && rest != "" && moved {
				s.changes[rest] = append(s.changes[rest], lineRange{1, maxFileSize})
			}
			continue
		}
		if name, ok := bytes.CutPrefix(line, []byte("--- ")); ok {
			if before = diffName(string(name), "a/"); Skipped(before, nil) != "" {
				before = ""
			}
			continue
		}
		if name, ok := bytes.CutPrefix(line, []byte("+++ ")); ok {
			after := diffName(string(name), "b/")
			file = ""
			if rest, ok := strings.CutPrefix(cmp.Or(after, before), prefix); ok && rest != "" {
				if before != "" {
					s.before[rest] = before
				}
				if after != "" {
					file = rest
				}
			}
			before = ""
			continue
		}
		removed, first, added, ok := parseHunk(string(line))
		if !ok {
			continue
		}
		content = removed + added
		if file == "" {
			continue
		}
		if ranges++; ranges > maxChanged {
			return gitError{fmt.Errorf("the diff has more than %d changes", maxChanged)}
		}
		if added == 0 {
			first++
		}
		s.changes[file] = append(s.changes[file], lineRange{first, first + added - 1})
	}
}

// diffName returns the path in the header of a file, such as path for "b/path", or "" if it has no such prefix.
func diffName(s, prefix string) string {
	s = strings.TrimSuffix(s, "\t")
	if strings.HasPrefix(s, `"`) {
		unquoted, err := strconv.Unquote(s)
		if err != nil {
			return ""
		}
		s = unquoted
	}
	name, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return ""
	}
	return name
}

// hunk matches the header of a hunk, "@@ -a,b +c,d @@". A missing count is 1.
var hunk = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// parseHunk parses the header of a hunk. It returns b, c and d. If d is 0, c is the line before the hunk.
func parseHunk(line string) (removed, first, added int, ok bool) {
	m := hunk.FindStringSubmatch(line)
	if m == nil {
		return 0, 0, 0, false
	}
	var numbers [4]int
	for i, digits := range m[1:] {
		n, err := strconv.Atoi(cmp.Or(digits, "1"))
		if err != nil || n > 1<<30 {
			return 0, 0, 0, false
		}
		numbers[i] = n
	}
	return numbers[1], numbers[2], numbers[3], true
}
