// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"assay"
	"assay/internal/offline"
	"assay/internal/report"
)

type scoreCmd struct {
	Files    []string `arg:"" name:"file" help:"Files of OTLP/JSON or OTLP protobuf, optionally compressed with gzip or zstd, and directories of such files; - is standard input."`
	At       instant  `placeholder:"TIME" help:"End of the scoring window, such as 2026-11-30T12:00:00Z; later telemetry does not count. Default: the newest timestamp of the input."`
	Format   string   `default:"text" enum:"text,json,markdown,junit,sarif" help:"Output format: ${enum} (${default})."`
	MinScore *int     `placeholder:"N" help:"Exit with status 1 when a service has a lower score, or when no service has a score."`
	FailOn   *string  `placeholder:"IMPACT" help:"Exit with status 1 when an insight has at least this impact: Critical, Important, Normal, Low."`
	Output   string   `short:"o" placeholder:"FILE" help:"File to write the report to. Default: standard output."`
}

// instant is a time in the format of RFC 3339.
type instant struct{ time.Time }

// UnmarshalText parses a time.
func (i *instant) UnmarshalText(text []byte) (err error) {
	if i.Time, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return fmt.Errorf("%q is not a time such as 2026-11-30T12:00:00Z", text)
	}
	return nil
}

var impacts = []assay.Impact{assay.ImpactCritical, assay.ImpactImportant, assay.ImpactNormal, assay.ImpactLow}

// impact returns the impact with a name, ignoring case.
func impact(name string) (assay.Impact, bool) {
	i := slices.IndexFunc(impacts, func(i assay.Impact) bool { return strings.EqualFold(string(i), name) })
	if i < 0 {
		return "", false
	}
	return impacts[i], true
}

func (c *scoreCmd) problems() []error {
	var ck check
	if c.MinScore != nil {
		ck.that(*c.MinScore >= 0 && *c.MinScore <= 100, "--min-score: %d is not in the range from 0 to 100", *c.MinScore)
	}
	if c.FailOn != nil {
		_, ok := impact(*c.FailOn)
		ck.that(ok, "--fail-on: %q is not one of Critical, Important, Normal and Low", *c.FailOn)
	}
	ck.that(c.At.IsZero() || c.At.After(time.Unix(0, 0)) && c.At.Before(time.Unix(0, math.MaxInt64)), "--at: %v is not a time of telemetry", c.At.Time)
	stdin := 0
	for _, f := range c.Files {
		if f == "-" {
			stdin++
		}
	}
	ck.that(stdin <= 1, "standard input is given %d times", stdin)
	return ck.problems
}

// Run scores the files and writes the report. The exit code reports whether the conditions are met.
func (c *scoreCmd) Run(e *environment) (err error) {
	inputs, done, err := c.inputs(e)
	if err != nil {
		return usageError{err}
	}
	defer done()
	cfg := offline.Config{Inputs: inputs, At: c.At.Time}
	show, clear := e.progress()
	if show != nil {
		cfg.Progress = func(p offline.Progress) {
			show(func() string {
				return fmt.Sprintf("%s read, %d requests, %s", report.Bytes(uint64(p.Bytes)), p.Requests, p.Name)
			})
		}
	}
	var skipped []error
	cfg.Skipped = func(err error) { skipped = append(skipped, err) }
	r, err := offline.Score(e.ctx, cfg)
	clear()
	if err != nil {
		if _, ok := errors.AsType[*offline.InputError](err); ok {
			return usageError{err}
		}
		return err
	}
	for _, s := range skipped[:min(len(skipped), maxSkipped)] {
		e.say("assay: skipped %v", s)
	}
	if n := len(skipped) - maxSkipped; n > 0 {
		e.say("assay: skipped %d more files that are not OTLP", n)
	}
	if err := c.write(e, r); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	all := r.Totals.Spans + r.Totals.MetricDataPoints + r.Totals.LogRecords
	if all == 0 {
		e.say("assay: the input has no spans, metric data points and log records; unknown fields are skipped, such as instrumentationLibrarySpans of OTLP before 1.0")
	}
	if o := r.Outside; o.Records > 0 {
		const layout = time.RFC3339
		e.say("assay: %d of %d records do not count, because they are outside of the scoring window from %s to %s: their times are from %s to %s (--at sets the end of the window)",
			o.Records, all, r.Window.Start.Format(layout), r.Window.End.Format(layout), o.Oldest.Format(layout), o.Newest.Format(layout))
	}
	if unmet := c.unmet(r); len(unmet) > 0 {
		for _, u := range unmet {
			e.say("assay: %s", u)
		}
		return exitError(exitFailed)
	}
	return nil
}

const (
	maxFiles   = 100_000 // of a directory
	maxSkipped = 10      // files that are named
)

// inputs returns the files of the arguments, in their order. Those of a directory are in lexical order. done closes the
// directories.
func (c *scoreCmd) inputs(e *environment) (inputs []offline.Input, done func(), err error) {
	var roots []*os.Root
	done = func() {
		for _, root := range roots {
			_ = root.Close()
		}
	}
	for _, name := range c.Files {
		if name == "-" {
			inputs = append(inputs, offline.Input{Name: "standard input", Open: func() (io.ReadCloser, error) { return io.NopCloser(e.stdin), nil }})
			continue
		}
		if info, err := os.Stat(name); err != nil || !info.IsDir() {
			inputs = append(inputs, offline.Input{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(name) }})
			continue
		}
		root, err := os.OpenRoot(name)
		if err != nil {
			done()
			return nil, nil, err
		}
		roots = append(roots, root)
		found, err := filesOf(root, name)
		if err != nil {
			done()
			return nil, nil, err
		}
		inputs = append(inputs, found...)
	}
	return inputs, done, nil
}

// filesOf returns the files below a directory, without hidden files and symbolic links.
func filesOf(root *os.Root, name string) (inputs []offline.Input, err error) {
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("read the directory %s: %w", name, err)
		case path != "." && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
		case entry.Type().IsRegular():
			if len(inputs) == maxFiles {
				return fmt.Errorf("the directory %s has more than %d files", name, maxFiles)
			}
			inputs = append(inputs, offline.Input{
				Name: filepath.Join(name, filepath.FromSlash(path)), Open: func() (io.ReadCloser, error) { return root.Open(path) }, Optional: true,
			})
		}
		return nil
	})
	if err == nil && len(inputs) == 0 {
		err = fmt.Errorf("the directory %s has no files", name)
	}
	return inputs, err
}

// belowWorkTree returns a path relative to the top of the Git work tree of a directory, or to the directory if it is in
// none. A path that is not below is absolute.
func belowWorkTree(dir, path string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return path
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	top := dir
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			top = at
			break
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if rel := relative(top, absolute); filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return absolute
}

func (c *scoreCmd) write(e *environment, r *report.Report) error {
	return e.writeTo(c.Output, func(w io.Writer) error {
		opt := e.textOptions(w)
		for _, f := range c.Files {
			if f != "-" {
				opt.Inputs = append(opt.Inputs, belowWorkTree(".", f))
			}
		}
		return report.Write(w, c.Format, r, opt)
	})
}

// writeTo calls write with a new file, or with standard output for "". A file that cannot be created is a usage error.
func (e *environment) writeTo(output string, write func(io.Writer) error) (err error) {
	if output == "" {
		return write(e.stdout)
	}
	f, err := os.Create(output)
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}

// unmet returns the conditions that the report does not meet, one line each.
func (c *scoreCmd) unmet(r *report.Report) []string {
	var unmet []string
	if c.MinScore != nil {
		scored := false
		for _, s := range r.Services {
			if s.Score == nil {
				continue
			}
			scored = true
			if *s.Score < *c.MinScore {
				unmet = append(unmet, fmt.Sprintf("%s scores %d, less than %d", report.Printable(s.Name, 200), *s.Score, *c.MinScore))
			}
		}
		if !scored {
			unmet = append(unmet, fmt.Sprintf("no service has a score, so none reaches %d", *c.MinScore))
		}
	}
	if c.FailOn != nil {
		least, _ := impact(*c.FailOn)
		for _, s := range r.Services {
			for _, i := range s.Insights {
				if i.Impact.Weight() >= least.Weight() {
					unmet = append(unmet, fmt.Sprintf("%s has the %s insight %s", report.Printable(s.Name, 200), i.Impact, i.Name))
				}
			}
		}
	}
	return unmet
}

// Delay before progress is shown, and interval between updates.
const (
	progressAfter = 2 * time.Second
	progressEvery = 200 * time.Millisecond
)

// progress returns functions that show and clear a line about the progress of a command. show is nil unless standard
// error is a terminal.
func (e *environment) progress() (show func(line func() string), clear func()) {
	width, tty := terminalWidth(e.stderr)
	if !tty || e.getenv("TERM") == "dumb" {
		return nil, func() {}
	}
	var mu sync.Mutex
	start, shown := time.Now(), time.Time{}
	show = func(line func() string) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if now.Sub(start) < progressAfter || now.Sub(shown) < progressEvery {
			return
		}
		shown = now
		fmt.Fprintf(e.stderr, "\r\x1b[K%s", report.Printable(line(), width-1))
	}
	return show, func() {
		mu.Lock()
		defer mu.Unlock()
		if !shown.IsZero() {
			fmt.Fprint(e.stderr, "\r\x1b[K")
		}
	}
}
