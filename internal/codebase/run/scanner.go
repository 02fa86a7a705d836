// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay"
	"assay/internal/codebase/sandbox"
	"assay/internal/review"
	"assay/internal/review/check"
	"assay/internal/review/patch"
	"assay/internal/review/worker"
)

// Reviewer reviews a directory. It is safe for concurrent use. Its errors have a code if a caller may see them.
type Reviewer interface {
	Review(ctx context.Context, dir string, s assay.RepositorySettings) (*review.Report, error)
	// Change reviews a directory, and makes the patch of a change without applying it.
	Change(ctx context.Context, dir string, s assay.RepositorySettings, c worker.Change) (*worker.Response, error)
}

// Scanner reviews in a child process: `assay review-worker`.
type Scanner struct {
	Program []string      // path and arguments of the child; nil: this program's review-worker
	Memory  int64         // bytes
	Time    time.Duration // limit for CPU time and for wall clock time

	maxReport int // bytes; default maxReport
}

const (
	maxReport    = 64 << 20 // bytes
	maxItems     = 200_000  // values in an array or object; a report has up to 100,000 files
	maxValues    = 10 * maxItems
	maxNesting   = 10_000 // depth of arrays and objects, as in encoding/json
	scannerFiles = 256

	maxResponseText = 4 << 10 // bytes; longer than any path
	maxListed       = 1000    // errors, and names of the instrumentation
	maxRules        = 10      // rules of a finding
)

// Review implements Reviewer.
func (s *Scanner) Review(ctx context.Context, dir string, settings assay.RepositorySettings) (*review.Report, error) {
	r, err := s.Change(ctx, dir, settings, worker.Change{})
	if err != nil {
		return nil, err
	}
	return r.Report, nil
}

// Change implements Reviewer.
func (s *Scanner) Change(ctx context.Context, dir string, settings assay.RepositorySettings, c worker.Change) (*worker.Response, error) {
	program := s.Program
	if program == nil {
		self, err := sandbox.Self()
		if err != nil {
			return nil, err
		}
		program = []string{self, "review-worker"}
	}
	// The settings may contain a check that this version no longer has, and the review rejects unknown checks.
	disable := slices.DeleteFunc(slices.Clone(settings.DisabledChecks), func(id string) bool { return !review.IsCheck(id) })
	input, err := json.Marshal(worker.Request{Options: review.Options{Root: dir, Disable: disable, Ignore: settings.Ignore}, Change: c})
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, s.Time)
	defer cancel()
	out := &sandbox.Buffer{Max: cmp.Or(s.maxReport, maxReport)}
	err = sandbox.Run(limited, sandbox.Command{
		Path: program[0], Args: program[1:], Dir: dir, Input: input, Output: out, Yield: true,
		// GOMEMLIMIT makes the Go runtime free memory before the process reaches the limit of the kernel. GOMAXPROCS
		// keeps half of the CPUs for the server, whose requests would wait for the child despite its lower priority.
		Env: []string{
			"PATH=" + sandbox.Path(), "TMPDIR=" + filepath.Dir(dir), "GOMEMLIMIT=" + strconv.FormatInt(s.Memory*3/4, 10),
			"GOMAXPROCS=" + strconv.Itoa(max(1, runtime.GOMAXPROCS(0)/2)),
		},
		Limits: sandbox.Limits{Memory: s.Memory, File: 1 << 20, CPU: s.Time, Files: scannerFiles},
	})
	if err == nil && !decodable(out.Bytes()) {
		err = sandbox.ErrTooMuchOutput
	}
	var failed *sandbox.Error
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case limited.Err() != nil:
		return nil, assay.Errorf(assay.CodeUnprocessable, "%s did not finish within %v", taskOf(&c), s.Time)
	case errors.Is(err, sandbox.ErrTooMuchOutput):
		return nil, assay.Errorf(assay.CodeUnprocessable, "the report of %s is too large", taskOf(&c))
	case errors.As(err, &failed) && (strings.Contains(failed.Stderr, "out of memory") || strings.Contains(failed.Stderr, "cannot allocate memory")):
		return nil, assay.Errorf(assay.CodeUnprocessable, "%s needs more memory than the limit of %d MiB", taskOf(&c), s.Memory>>20)
	case errors.As(err, &failed):
		return nil, &assay.Error{Code: assay.CodeUnprocessable, Message: taskOf(&c) + " failed: " + firstLine(failed.Stderr), Err: err}
	default:
		return nil, err
	}
	var r worker.Response
	err = json.Unmarshal(out.Bytes(), &r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("decode the report of %s: %w", taskOf(&c), err)
	case r.Report == nil || !c.None() && r.Patch == nil:
		return nil, fmt.Errorf("the report of %s is not complete", taskOf(&c))
	case !limit(&r):
		return nil, assay.Errorf(assay.CodeUnprocessable, "the report of %s is too large", taskOf(&c))
	}
	return &r, nil
}

// limit truncates the texts of a response, and reports whether its lists are within the limits of a review. The child
// applies the same limits, but code that it reads may have compromised it.
func limit(r *worker.Response) bool {
	cut(reflect.ValueOf(r))
	i := &r.Instrumentation
	if max(len(r.Errors), len(i.Services), len(i.DetectedSDKs)) > maxListed {
		return false
	}
	findings := [][]review.Finding{r.Findings}
	if p := r.Patch; p != nil {
		findings = append(findings, p.Fixed, p.Left, p.Rejected)
		if slices.ContainsFunc(p.Files, func(f patch.File) bool { return len(f.After) > 2*patch.MaxFile }) {
			return false
		}
	}
	return !slices.ContainsFunc(findings, func(list []review.Finding) bool {
		return len(list) > assay.MaxFindings || slices.ContainsFunc(list, func(f review.Finding) bool { return len(f.Rules) > maxRules })
	})
}

// cut truncates all texts in a value to maxResponseText.
func cut(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			cut(v.Elem())
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			cut(f)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			cut(v.Index(i))
		}
	case reflect.String:
		if v.Len() > maxResponseText {
			v.SetString(check.Cut(v.String(), maxResponseText))
		}
	default:
	}
}

// decodable reports whether the number of values in a JSON text is within the limits, since a value of three bytes
// takes hundreds of bytes when it is decoded. It counts only brackets and commas, and does not validate the text.
func decodable(text []byte) bool {
	var open []int // number of values in each enclosing array and object
	values, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			if len(open) == maxNesting {
				return false
			}
			open = append(open, 0)
			values++
		case c == ']', c == '}':
			open = open[:max(len(open)-1, 0)]
		case c == ',' && len(open) > 0:
			values++
			if open[len(open)-1]++; open[len(open)-1] >= maxItems || values >= maxValues {
				return false
			}
		}
	}
	return values < maxValues
}

// taskOf returns the name of the child's task, for messages to the caller.
func taskOf(c *worker.Change) string {
	switch {
	case c.Instrument != "":
		return "the instrumentation"
	case c.Migrate:
		return "the migration"
	case len(c.Fix) > 0:
		return "the fix"
	case len(c.Parse) > 0:
		return "the check of the change"
	default:
		return "the review"
	}
}

// firstLine returns the first line of the standard error of a program, quoted, since it may contain names of files.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	line = strings.TrimPrefix(line, "assay: ")
	if len(line) > 200 {
		line = strings.ToValidUTF8(line[:200], "") + "…"
	}
	return strconv.Quote(line)
}
