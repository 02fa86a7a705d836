// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Limits are the resources of a program. 0 means unlimited.
type Limits struct {
	Memory int64         // bytes of writable memory
	File   int64         // bytes of a file that it writes
	CPU    time.Duration // of processor time, in whole seconds
	Files  int           // open files
}

// Command is a program to run.
type Command struct {
	Path   string // absolute
	Args   []string
	Env    []string
	Dir    string
	Limits Limits
	// Network reports whether the program may use the network.
	Network bool
	// Yield stops the program for nine tenths of the time in which this process is busy: see yield. The program must be
	// one process and must not be in a hurry.
	Yield bool
	Input []byte // standard input
	// Output receives the standard output. An error of Write kills the program, and Run returns it.
	Output io.Writer
}

// Error reports that a program failed.
type Error struct {
	Err    error
	Stderr string // the end of its standard error; hostile
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

const (
	maxStderr = 8 << 10
	waitDelay = 2 * time.Second // for pipes that grandchildren keep open
)

// Run runs a program until it ends. When ctx ends, it kills the program with its process group and returns the cause of
// ctx. A program that fails gives an *Error.
func Run(ctx context.Context, c Command) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stderr := Tail{Max: maxStderr}
	out := &output{to: c.Output, fail: cancel}
	start := func(isolated bool) (*exec.Cmd, error) {
		cmd, err := command(inner, &c, isolated)
		if err != nil {
			return nil, err
		}
		cmd.Dir, cmd.Env = c.Dir, c.Env
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.Input), out, &stderr
		cmd.WaitDelay = waitDelay
		return cmd, cmd.Start()
	}
	cmd, err := start(!c.Network)
	if err != nil && !c.Network { // a network namespace is not permitted
		cmd, err = start(false)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", c.Path, err)
	}
	err = wait(cmd, c.Yield)
	switch {
	case context.Cause(inner) != nil:
		return context.Cause(inner)
	case err != nil:
		return &Error{Err: err, Stderr: stderr.String()}
	}
	return nil
}

// wait waits for the end of a program, which may yield to this process.
func wait(cmd *exec.Cmd, yields bool) error {
	if !yields {
		return cmd.Wait()
	}
	var yielding sync.WaitGroup
	ended := make(chan struct{})
	yielding.Go(func() { yield(ended, cmd.Process) })
	err := cmd.Wait()
	close(ended)
	yielding.Wait()
	return err
}

// Path returns the PATH for programs. A server may run without one.
func Path() string { return cmp.Or(os.Getenv("PATH"), "/usr/local/bin:/usr/bin:/bin") }

// Executable returns the absolute path of a program in Path.
func Executable(name string) (string, error) {
	for _, dir := range filepath.SplitList(Path()) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find the program %s: %w", name, exec.ErrNotFound)
}

// Self returns the path of this program.
func Self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return path, nil
}

// output passes output on and ends the program at the first error.
type output struct {
	to   io.Writer
	fail context.CancelCauseFunc
}

func (o *output) Write(p []byte) (int, error) {
	if o.to == nil {
		return len(p), nil
	}
	n, err := o.to.Write(p)
	if err != nil {
		o.fail(err)
	}
	return n, err
}

// ErrTooMuchOutput reports that a program wrote more than a Buffer holds.
var ErrTooMuchOutput = errors.New("the output of the program is too large")

// Buffer is output in memory of at most Max bytes.
type Buffer struct {
	bytes.Buffer
	Max int
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.Max {
		return 0, ErrTooMuchOutput
	}
	return b.Buffer.Write(p)
}

// Tail keeps the end of what is written, at most Max bytes. It is safe for concurrent use.
type Tail struct {
	Max int

	mu   sync.Mutex
	text []byte
	cut  bool
}

// Write implements io.Writer. It does not fail.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-t.Max):]...)
	if cut := len(t.text) - t.Max; cut > 0 {
		t.text = append(t.text[:0], t.text[cut:]...)
	}
	t.cut = t.cut || len(t.text) == t.Max
	return len(p), nil
}

// String returns the end, as valid UTF-8.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "\uFFFD")
}

// Lines returns the end without a line whose begin is missing, as valid UTF-8.
func (t *Tail) Lines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.text
	if t.cut {
		_, text, _ = bytes.Cut(text, []byte{'\n'})
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}
