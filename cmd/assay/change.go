// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"assay"
	"assay/internal/report"
	"assay/internal/review"
	"assay/internal/review/fix"
	"assay/internal/review/instrument"
	"assay/internal/review/worker"
)

type fixCmd struct {
	Dir    string   `arg:"" type:"existingdir" help:"Directory to fix."`
	Only   []string `placeholder:"CHECK" help:"Checks whose findings to fix, separated by commas. Default: all that have a fix."`
	DryRun bool     `help:"Print the diff without changing files."`
}

// Run reviews the directory, fixes what has a mechanical fix, and prints the diff.
func (c *fixCmd) Run(e *environment) error {
	parser, err := review.NewParser(e.ctx, grammarCache())
	if err != nil {
		return err
	}
	defer parser.Close(e.ctx)
	opt := review.Options{Root: c.Dir, Only: c.Only, Parser: parser}
	r, err := e.review(opt)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return usageError{err}
	}
	defer root.Close()
	patch, err := fix.Make(e.ctx, root, parser, r.Findings)
	if err != nil {
		return err
	}
	if err := e.apply(patch, root, c.DryRun); err != nil {
		return err
	}
	done := "fixed"
	if c.DryRun {
		done = "can be fixed"
	}
	e.say("assay: %s: %d of %d findings; files: %d", done, len(patch.Fixed), len(r.Findings), len(patch.Files))
	variables := patch.Variables()
	for _, v := range slices.Sorted(maps.Keys(variables)) {
		at := variables[v].Locations[0]
		e.say("assay: left: %s:%d: set the environment variable %s", at.File, at.Line, v)
	}
	for _, f := range patch.Left {
		e.say("assay: left: %s:%d: %s: its fix overlaps another fix; run the command again", f.Locations[0].File, f.Locations[0].Line, f.Check)
	}
	for _, f := range patch.Rejected {
		e.say("assay: left: %s:%d: %s: the file would not compile with its fix", f.Locations[0].File, f.Locations[0].Line, f.Check)
	}
	return nil
}

// apply changes the files, unless it is a dry run, and prints the diff.
func (e *environment) apply(p *fix.Patch, root *os.Root, dryRun bool) error {
	if !dryRun {
		if err := p.Apply(root); err != nil {
			return err
		}
	}
	var diff bytes.Buffer
	if err := p.Diff(&diff); err != nil {
		return err
	}
	_, terminal := terminalWidth(e.stdout)
	if err := report.WriteDiff(e.stdout, diff.Bytes(), terminal, e.textOptions(e.stdout)); err != nil {
		return fmt.Errorf("write the diff: %w", err)
	}
	return nil
}

type instrumentCmd struct {
	Dir    string `arg:"" type:"existingdir" help:"Directory to instrument."`
	Type   string `enum:"minimum,general" default:"minimum" help:"minimum: automatic instrumentation and the setup of the SDK. general: spans and metrics at handlers, consumers, outgoing calls and database access in the code as well."`
	DryRun bool   `help:"Print the diff without changing files."`
}

// Run adds OpenTelemetry to the services of the directory, and prints the diff and what is left to do.
func (c *instrumentCmd) Run(e *environment) error {
	return e.change(c.Dir, worker.Change{Instrument: instrument.Kind(c.Type)}, c.DryRun)
}

type migrateCmd struct {
	Dir    string `arg:"" type:"existingdir" help:"Directory to migrate."`
	DryRun bool   `help:"Print the diff without changing files."`
}

// Run migrates the directory from other tracing libraries to OpenTelemetry, and prints the diff and what is left to do.
func (c *migrateCmd) Run(e *environment) error {
	return e.change(c.Dir, worker.Change{Migrate: true}, c.DryRun)
}

// change applies a change that does not depend on the findings of a review.
func (e *environment) change(dir string, c worker.Change, dryRun bool) error {
	parser, err := review.NewParser(e.ctx, grammarCache())
	if err != nil {
		return err
	}
	defer parser.Close(e.ctx)
	opt := review.Options{Root: dir, Parser: parser}
	var findings []review.Finding
	if c.Migrate {
		opt.Only = []string{"vendor-instrumentation"}
		r, err := e.review(opt)
		if err != nil {
			return err
		}
		findings = r.Findings
	}
	p, err := worker.Make(e.ctx, c, opt, parser, findings)
	if errors.Is(err, instrument.ErrNoService) {
		e.say("assay: nothing to change: %v", err)
		return nil
	}
	if assay.ErrorCode(err) == assay.CodeUnprocessable {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return usageError{err}
	}
	defer root.Close()
	if err := e.apply(p, root, dryRun); err != nil {
		return err
	}
	if len(p.Files) == 0 && len(p.Steps) == 0 {
		e.say("assay: nothing to change")
	}
	for _, s := range p.Steps {
		what := "done"
		switch {
		case s.Open:
			what = "left"
		case dryRun:
			what = "to do"
		}
		at := cmp.Or(s.File, ".")
		if s.Line > 0 {
			at += ":" + strconv.Itoa(s.Line)
		}
		e.say("assay: %s: %s: %s", what, at, s.Text)
	}
	return nil
}
