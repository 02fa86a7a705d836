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

	"assay/internal/report"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run(&environment{
		ctx:     context.Background(),
		args:    os.Args[1:],
		environ: os.Environ(),
		stdin:   os.Stdin,
		stdout:  os.Stdout,
		stderr:  os.Stderr,
	}))
}

// environment is what a command gets from outside.
type environment struct {
	ctx            context.Context
	args           []string
	environ        []string // NAME=VALUE
	stdin          io.Reader
	stdout, stderr io.Writer

	warnings []string // about the configuration
}

// getenv returns the value of an environment variable, "" when it is not set.
func (e *environment) getenv(name string) string {
	for _, v := range e.environ {
		if n, value, ok := strings.Cut(v, "="); ok && n == name {
			return value
		}
	}
	return ""
}

// say writes a line to standard error. There is nowhere to tell that it failed.
func (e *environment) say(format string, args ...any) {
	_, _ = fmt.Fprintf(e.stderr, format+"\n", args...)
}

// print writes to standard output what is only for people who watch.
func (e *environment) print(s string) {
	_, _ = io.WriteString(e.stdout, s)
}

// cli is the command line.
type cli struct {
	Config string `help:"YAML file of settings. Its keys are the names of the flags." placeholder:"FILE"`

	Serve        serveCmd        `cmd:"" help:"Take OTLP in, score it and serve the REST API."`
	Demo         demoCmd         `cmd:"" help:"Serve from a temporary store, with simulated services that send telemetry to it."`
	Score        scoreCmd        `cmd:"" help:"Score recorded OTLP."`
	Organization organizationCmd `cmd:"" help:"Manage organizations."`
	Key          keyCmd          `cmd:"" help:"Manage API keys."`
	SigningKey   signingKeyCmd   `cmd:"" help:"Manage the keys that tokens for the agent backend are signed with."`
	Insight      insightCmd      `cmd:"" help:"List and mute insights."`
	Rules        rulesCmd        `cmd:"" help:"Show the rules as implemented."`
	AgentStub    agentStubCmd    `cmd:"" name:"agent-stub" help:"Stand in for the agent backend, for development: all it answers is invented."`
	Store        storeCmd        `cmd:"" help:"Manage the store."`
	Version      versionCmd      `cmd:"" help:"Print the version."`
}

const description = "Judges OpenTelemetry data by the Instrumentation Score.\n\n" +
	"A flag can also be set by the environment variable of its name (--http-address by ASSAY_HTTP_ADDRESS) or in the file given by --config. " +
	"A flag beats the environment, which beats the file. An empty variable counts as not set."

// command is what the selected command of the command line does.
type command interface {
	Run(e *environment) error
}

// checked is a command with flags whose values have to be looked at. It returns
// everything that is wrong with them.
type checked interface {
	problems() []error
}

// usageError is an error in how the program was called or configured.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// exitError ends the program with a code of its own; what is to be said has been.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// run runs the program and returns its exit code.
func run(e *environment) int {
	cmd, err := parse(e)
	switch {
	case err == nil && cmd == nil: // help was asked for
		return exitOK
	case err == nil:
		if _, ok := cmd.(*serveCmd); !ok { // which logs them
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
	var exit exitError
	if errors.As(err, &exit) {
		return int(exit)
	}
	for _, line := range lines(err) {
		e.say("assay: %s", report.Printable(line, 1000))
	}
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// lines returns the messages of joined errors, one each.
func lines(err error) []string {
	return strings.Split(err.Error(), "\n")
}

// parse returns the selected command with its flags set, nil when the help was
// printed instead. Its errors are usage errors.
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
		kong.Resolvers(settings),
	)
	if err != nil {
		return nil, fmt.Errorf("build the command line: %w", err)
	}
	settings.know(k.Model.Node)
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
		var p *kong.ParseError
		if errors.As(err, &p) {
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
