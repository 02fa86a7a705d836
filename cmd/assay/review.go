// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"assay/internal/report"
	"assay/internal/review"
	checks "assay/internal/review/check"
	"assay/internal/review/worker"
	"assay/internal/safetext"
)

type reviewCmd struct {
	Paths   []string `arg:"" name:"path" help:"Directories and files to review."`
	Format  string   `default:"text" enum:"text,json,markdown,junit,sarif" help:"Output format: ${enum} (${default})."`
	Output  string   `short:"o" placeholder:"FILE" help:"File to write the report to. Default: standard output."`
	FailOn  *string  `placeholder:"SEVERITY" help:"Exit with status 1 when a finding has at least this severity: critical, high, medium, low, suggestion."`
	Since   *string  `placeholder:"REF" help:"Report only findings that changes since this Git reference introduce."`
	Only    []string `placeholder:"CHECK" help:"Checks to run, separated by commas. Default: all."`
	Disable []string `placeholder:"CHECK" help:"Checks not to run, separated by commas."`
}

// severity returns the index of a severity in checks.Severities, ignoring case.
func severity(name string) (index int, ok bool) {
	index = slices.Index(checks.Severities, checks.Severity(strings.ToLower(name)))
	return index, index >= 0
}

func (c *reviewCmd) problems() []error {
	var ck check
	if c.FailOn != nil {
		_, ok := severity(*c.FailOn)
		ck.that(ok, "--fail-on: %q is not one of critical, high, medium, low and suggestion", *c.FailOn)
	}
	ck.that(c.Since == nil || *c.Since != "", "--since: the Git reference is empty")
	return ck.problems
}

// Run reviews the paths and writes the report. The exit code reports whether the condition is met.
func (c *reviewCmd) Run(e *environment) error {
	opt := review.Options{Only: c.Only, Disable: c.Disable, Cache: grammarCache()}
	if c.Since != nil {
		opt.Since = *c.Since
	}
	var err error
	if opt.Root, opt.Paths, err = reviewRoot(c.Paths); err != nil {
		return usageError{err}
	}
	r, err := e.review(opt)
	if err != nil {
		return err
	}
	err = e.writeTo(c.Output, func(w io.Writer) error {
		shown := e.textOptions(w)
		shown.Base = belowWorkTree(opt.Root, opt.Root)
		return report.WriteReview(w, c.Format, r, shown)
	})
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if c.FailOn != nil {
		least, _ := severity(*c.FailOn)
		n := 0
		for i := range r.Findings {
			if at, _ := severity(string(r.Findings[i].Severity)); at <= least {
				n++
			}
		}
		if n > 0 {
			e.say("assay: findings of severity %s or worse: %d", checks.Severities[least], n)
			return exitError(exitFailed)
		}
	}
	return nil
}

// review runs a review and shows its progress.
func (e *environment) review(opt review.Options) (*review.Report, error) {
	show, clear := e.progress()
	if show != nil {
		opt.Progress = func(done, total int) {
			show(func() string { return fmt.Sprintf("%d of %d files", done, total) })
		}
	}
	r, err := review.Run(e.ctx, opt)
	clear()
	return r, reviewError(err)
}

// reviewError returns the error of a review as a usage error if its cause is in the options.
func reviewError(err error) error {
	if _, ok := errors.AsType[review.InputError](err); ok {
		return usageError{err}
	}
	return err
}

// reviewRoot returns the directory that contains the paths, and the paths below it. A single directory is the root.
// Otherwise it is the working directory if all paths are below, else their deepest common directory.
func reviewRoot(paths []string) (root string, below []string, err error) {
	all := make([]string, len(paths))
	for i, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return "", nil, err
		}
		if len(paths) == 1 && info.IsDir() {
			return p, nil, nil
		}
		if all[i], err = filepath.Abs(p); err != nil {
			return "", nil, err
		}
	}
	if root, err = os.Getwd(); err != nil {
		return "", nil, err
	}
	if slices.ContainsFunc(all, func(p string) bool { return !filepath.IsLocal(relative(root, p)) }) {
		for root = filepath.Dir(all[0]); ; root = filepath.Dir(root) {
			if !slices.ContainsFunc(all, func(p string) bool { return !filepath.IsLocal(relative(root, p)) }) {
				break
			}
			if root == filepath.Dir(root) {
				return "", nil, errors.New("the paths have no directory in common")
			}
		}
	}
	for _, p := range all {
		below = append(below, filepath.ToSlash(relative(root, p)))
	}
	return root, below, nil
}

// relative returns the path from a directory to a path, "" if there is none.
func relative(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return ""
	}
	return rel
}

// grammarCache returns the directory of the compiled grammars, or "" if this user has none that others cannot write.
func grammarCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir = filepath.Join(dir, "assay", "grammars")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 && runtime.GOOS != "windows" {
		return ""
	}
	return dir
}

// reviewWorkerCmd reviews code in a process of its own, whose time and memory the caller limits.
type reviewWorkerCmd struct{}

// Run reads a worker.Request as JSON from standard input and writes a worker.Response as JSON to standard output.
func (*reviewWorkerCmd) Run(e *environment) error {
	dec := json.NewDecoder(e.stdin)
	dec.DisallowUnknownFields()
	var req worker.Request
	if err := dec.Decode(&req); err != nil {
		return usageError{fmt.Errorf("decode the options: %w", err)}
	}
	if req.Cache == "" {
		req.Cache = grammarCache()
	}
	r, err := worker.Serve(e.ctx, &req)
	if err != nil {
		return reviewError(err)
	}
	var b bytes.Buffer
	if err := safetext.EncodeJSON(&b, r, ""); err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	_, err = e.stdout.Write(b.Bytes())
	return err
}
