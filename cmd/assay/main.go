// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"assay/internal/codebase/sandbox"
	"assay/internal/report"
	"assay/internal/safetext"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	sandbox.Main() // does not return in a child that runs another program
	os.Exit(run(&environment{
		ctx:     context.Background(),
		args:    os.Args[1:],
		environ: os.Environ(),
		stdin:   os.Stdin,
		stdout:  os.Stdout,
		stderr:  os.Stderr,
	}))
}

// environment holds the inputs and outputs of a command.
type environment struct {
	ctx            context.Context
	args           []string
	environ        []string // NAME=VALUE
	stdin          io.Reader
	stdout, stderr io.Writer

	warnings []string // about the configuration
}

// getenv returns the value of an environment variable, or "" if it is not set.
func (e *environment) getenv(name string) string {
	for _, v := range e.environ {
		if n, value, ok := strings.Cut(v, "="); ok && n == name {
			return value
		}
	}
	return ""
}

// say writes one line to standard error, without hidden characters. It ignores errors.
func (e *environment) say(format string, args ...any) {
	text := strings.NewReplacer("\n", " ", "\t", " ").Replace(fmt.Sprintf(format, args...))
	_, _ = fmt.Fprintln(e.stderr, safetext.LogLine(safetext.Printable(text, ""))) // names of files, services and the like
}

// print writes optional output to standard output. It ignores errors.
func (e *environment) print(s string) {
	_, _ = io.WriteString(e.stdout, s)
}

// cli is the command line.
type cli struct {
	HelpAll helpAll `help:"Show all flags, those for tuning included."`
	Config  string  `help:"YAML configuration file. Its keys are the names of the flags." placeholder:"FILE"`

	Serve        serveCmd        `cmd:"" help:"Receive OTLP, score it, and serve the REST API and the dashboard."`
	Demo         demoCmd         `cmd:"" help:"Run a server with a temporary store and simulated services that send telemetry to it."`
	Score        scoreCmd        `cmd:"" help:"Score recorded OTLP."`
	Review       reviewCmd       `cmd:"" help:"Review source code for mistakes that lead to bad telemetry."`
	Fix          fixCmd          `cmd:"" help:"Fix mistakes that lead to bad telemetry in source code."`
	Instrument   instrumentCmd   `cmd:"" help:"Add OpenTelemetry to the services of a repository."`
	Migrate      migrateCmd      `cmd:"" help:"Migrate code from OpenTracing, OpenCensus, Jaeger, Zipkin and Datadog libraries to OpenTelemetry."`
	ReviewWorker reviewWorkerCmd `cmd:"" hidden:"" help:"Review source code for a server: options and report are JSON."`
	Organization organizationCmd `cmd:"" help:"Manage organizations."`
	Key          keyCmd          `cmd:"" help:"Manage API keys."`
	SigningKey   signingKeyCmd   `cmd:"" help:"Manage the keys that tokens for the agent backend are signed with."`
	Insight      insightCmd      `cmd:"" help:"List and mute insights."`
	Rules        rulesCmd        `cmd:"" help:"Print the rules as implemented."`
	MCP          mcpCmd          `cmd:"" name:"mcp" help:"Serve coding agents by the Model Context Protocol on standard input and output."`
	Agent        agentCmd        `cmd:"" help:"Run the codebase agent as a process of its own."`
	Store        storeCmd        `cmd:"" help:"Manage the store."`
	Version      versionCmd      `cmd:"" help:"Print the version."`
}

const description = "Evaluates OpenTelemetry data by the Instrumentation Score rules.\n\n" +
	"Each flag can also be set by an environment variable (ASSAY_HTTP_ADDRESS for --http-address) or in the file given by --config. " +
	"Flags take precedence over the environment, which takes precedence over the file. An empty variable is ignored."

// command is a command that the command line can select.
type command interface {
	Run(e *environment) error
}

// checked is a command that validates the values of its flags. It returns all errors.
type checked interface {
	problems() []error
}

// usageError is an error in the arguments or the configuration.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// exitError ends the program with an exit code and without a message.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// run runs the program and returns its exit code.
func run(e *environment) int {
	cmd, err := parse(e)
	switch {
	case err == nil && cmd == nil: // the help was printed
		return exitOK
	case err == nil:
		if _, ok := cmd.(*serveCmd); !ok { // serve logs them itself
			for _, w := range e.warnings {
				e.say("assay: warning: %s", w)
			}
		}
		err = cmd.Run(e)
	}
	return exitCode(e, err)
}

func exitCode(e *environment, err error) int {
	if err == nil {
		return exitOK
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		return int(exit)
	}
	for _, line := range lines(err) {
		e.say("assay: %s", report.Printable(line, 1000))
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// lines returns the messages of joined errors, one per error.
func lines(err error) []string {
	return strings.Split(err.Error(), "\n")
}

// parse returns the selected command with its flags set, or nil if it printed the help. Its errors are usage errors.
func parse(e *environment) (command, error) {
	var c cli
	settings := newSettings(e.environ)
	helped := false
	k, err := kong.New(&c,
		kong.Name("assay"),
		kong.Description(description),
		kong.Writers(e.stdout, e.stderr),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.ExplicitGroups(flagGroups),
		kong.Resolvers(settings),
	)
	if err != nil {
		return nil, fmt.Errorf("build the command line: %w", err)
	}
	settings.registerFlags(k.Model.Node)
	args := e.args
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := k.Parse(args)
	if helped {
		return nil, nil
	}
	if err == nil {
		settings.load(ctx) // for a command without flags
	}
	e.warnings = settings.warnings
	problems := settings.problems
	if err != nil {
		if _, ok := errors.AsType[*kong.ParseError](err); ok {
			problems = append(problems, errors.New(strings.TrimSpace(err.Error())+" (see --help)"))
		} else {
			problems = append(problems, err)
		}
		return nil, usageError{errors.Join(problems...)}
	}
	cmd, ok := ctx.Selected().Target.Addr().Interface().(command)
	if !ok {
		return nil, usageError{fmt.Errorf("%s is not a command", ctx.Command())}
	}
	if v, ok := cmd.(checked); ok {
		problems = append(problems, v.problems()...)
	}
	if len(problems) > 0 {
		return nil, usageError{errors.Join(problems...)}
	}
	return cmd, nil
}
