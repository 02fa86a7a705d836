// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"time"

	"assay/internal/codebase/sandbox"
	"assay/internal/report"
)

// outcome is one run of the tests with its telemetry.
type outcome struct {
	tests   *Tests
	report  *report.Report
	dropped bool
}

func (o *outcome) telemetry() *Telemetry {
	t := o.report.Totals
	return &Telemetry{Spans: t.Spans, LogRecords: t.LogRecords, MetricPoints: t.MetricDataPoints, Dropped: o.dropped}
}

// attempt is one run of the tests in progress.
type attempt struct {
	*receiver
	output sandbox.Tail
	begin  time.Time
}

// end evaluates the telemetry, after the processes of the tests have ended.
func (a *attempt) end(ctx context.Context, exit sandbox.Exit) (*outcome, error) {
	duration := time.Since(a.begin)
	requests, dropped := a.close()
	scored, err := evaluate(ctx, requests)
	if err != nil {
		return nil, err
	}
	tests := &Tests{Passed: exit.Code == 0, ExitCode: exit.Code, Limit: exit.Limit, Duration: duration.Seconds(), Output: printable(a.output.Lines())}
	return &outcome{tests: tests, report: scored, dropped: dropped}, nil
}

var (
	errTime  = errors.New("the tests exceed the limit for time")
	exitTime = sandbox.Exit{Code: -1, Limit: "time"}
)

// run runs the tests before and after a change. It skips the second run if the first one fails. If it returns an error,
// it also returns the outcomes so far.
func (v *Verifier) run(ctx context.Context, command string, progress func(string), before, after fs.FS) (outcomes []*outcome, err error) {
	var attempts [2]attempt
	for i := range attempts {
		a := &attempts[i]
		if a.receiver, err = newReceiver(); err != nil {
			return nil, err
		}
		defer a.close()
		a.output.Max, a.begin = maxOutput, time.Now()
	}
	current := func() *attempt { return &attempts[len(outcomes)] }
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := cmp.Or(v.Time, DefaultTime)
	timer := time.AfterFunc(limit, func() { cancel(errTime) })
	defer timer.Stop()
	var failed error
	done := false
	c := &sandbox.Container{
		Script: command, Env: v.environment(), Trees: []fs.FS{before, after}, ReadOnly: v.ReadOnly,
		Memory: cmp.Or(v.Memory, DefaultMemory), Disk: cmp.Or(v.Disk, DefaultDisk), Processes: cmp.Or(v.Processes, DefaultProcesses),
		Ports: []int{portHTTP, portGRPC},
		Serve: func(listeners []net.Listener) {
			progress([]string{"tests before the change", "tests after the change"}[len(outcomes)])
			current().begin = time.Now()
			current().serve(listeners)
		},
		Output: writer(func(p []byte) (int, error) { return current().output.Write(p) }),
		Ended: func(exit sandbox.Exit) bool {
			if !timer.Stop() {
				exit = exitTime
			}
			var o *outcome
			if o, failed = current().end(ctx, exit); failed != nil {
				return false
			}
			outcomes = append(outcomes, o)
			if done = !o.tests.Passed || len(outcomes) == len(attempts); !done {
				timer.Reset(limit)
			}
			return !done
		},
	}
	_, err = c.Run(limited)
	switch {
	case ctx.Err() != nil:
		return outcomes, context.Cause(ctx)
	case failed != nil || done:
		return outcomes, failed
	case !errors.Is(err, errTime):
		return outcomes, err
	}
	o, err := current().end(ctx, exitTime)
	if err != nil {
		return outcomes, err
	}
	return append(outcomes, o), nil
}

// writer is a function that implements io.Writer.
type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
