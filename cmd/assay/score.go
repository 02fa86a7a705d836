// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"assay"
	"assay/internal/offline"
	"assay/internal/report"
)

type scoreCmd struct {
	Files    []string `arg:"" name:"file" help:"Files of OTLP as JSON or protobuf, plain or packed with gzip or zstd; - is standard input."`
	Format   string   `default:"text" enum:"text,json,markdown,junit,sarif" help:"Output format: ${enum} (${default})."`
	MinScore *int     `placeholder:"N" help:"Exit with 1 when a service scores less, or when no service has a score."`
	FailOn   string   `placeholder:"IMPACT" help:"Exit with 1 when there is an insight of this impact or a heavier one: Critical, Important, Normal, Low."`
	Output   string   `short:"o" placeholder:"FILE" help:"Write the report to a file."`
}

var impacts = []assay.Impact{assay.ImpactCritical, assay.ImpactImportant, assay.ImpactNormal, assay.ImpactLow}

// impact returns the impact of a name in any case.
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
	if c.FailOn != "" {
		_, ok := impact(c.FailOn)
		ck.that(ok, "--fail-on: %q is not one of Critical, Important, Normal and Low", c.FailOn)
	}
	stdin := 0
	for _, f := range c.Files {
		if f == "-" {
			stdin++
		}
	}
	ck.that(stdin <= 1, "standard input is given %d times", stdin)
	return ck.problems
}

// Run scores the files, writes the report and tells by its exit code whether it
// meets what was asked.
func (c *scoreCmd) Run(e *environment) (err error) {
	inputs := make([]offline.Input, len(c.Files))
	for i, name := range c.Files {
		if name == "-" {
			inputs[i] = offline.Input{Name: "standard input", Open: func() (io.ReadCloser, error) { return io.NopCloser(e.stdin), nil }}
		} else {
			inputs[i] = offline.Input{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(name) }}
		}
	}
	show, clear := e.progress()
	r, err := offline.Score(e.ctx, offline.Config{Inputs: inputs, Progress: show})
	clear()
	if err != nil {
		var input *offline.InputError
		if errors.As(err, &input) {
			return usageError{err}
		}
		return err
	}
	if err := c.write(e, r); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if unmet := c.unmet(r); len(unmet) > 0 {
		for _, u := range unmet {
			e.say("assay: %s", u)
		}
		return exitError(exitFailed)
	}
	return nil
}

func (c *scoreCmd) write(e *environment, r *report.Report) (err error) {
	w := e.stdout
	if c.Output != "" {
		f, createErr := os.Create(c.Output)
		if createErr != nil {
			return createErr
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = f
	}
	opt := e.textOptions(w)
	for _, f := range c.Files {
		if f != "-" {
			opt.Inputs = append(opt.Inputs, f)
		}
	}
	return report.Write(w, c.Format, r, opt)
}

// unmet returns which of the conditions the report does not meet, one line each.
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
	if c.FailOn != "" {
		least, _ := impact(c.FailOn)
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

// How long reading takes before progress is shown, and how often that changes.
const (
	progressAfter = 2 * time.Second
	progressEvery = 200 * time.Millisecond
)

// progress returns a function that shows how far reading is and one that takes
// the display away; both do nothing unless standard error is a terminal.
func (e *environment) progress() (show func(offline.Progress), clear func()) {
	width, tty := terminalWidth(e.stderr)
	if !tty || e.getenv("TERM") == "dumb" {
		return nil, func() {}
	}
	var mu sync.Mutex
	start, shown := time.Now(), time.Time{}
	show = func(p offline.Progress) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if now.Sub(start) < progressAfter || now.Sub(shown) < progressEvery {
			return
		}
		shown = now
		line := fmt.Sprintf("%s read, %d requests, %s", report.Bytes(uint64(p.Bytes)), p.Requests, p.Name)
		fmt.Fprintf(e.stderr, "\r\x1b[K%s", report.Printable(line, width-1))
	}
	return show, func() {
		mu.Lock()
		defer mu.Unlock()
		if !shown.IsZero() {
			fmt.Fprint(e.stderr, "\r\x1b[K")
		}
	}
}
