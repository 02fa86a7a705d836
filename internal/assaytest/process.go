// SPDX-License-Identifier: Apache-2.0

package assaytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Limit bounds every wait of a test. It ends a test that hangs; a busy machine does not
// reach it.
const Limit = 5 * time.Minute

// PollInterval is how often Await first checks a condition that is cheap to check.
const PollInterval = 20 * time.Millisecond

// maxPollInterval limits the interval to which Await slows down.
const maxPollInterval = 400 * time.Millisecond

// Await calls check at an interval until it returns nil. A long wait slows down, since checks are work for the
// server: it notices the end late by at most a tenth of its time. After the limit, or when ctx ends, Await returns
// the last error of check.
func Await(ctx context.Context, limit, interval time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	for {
		err := check()
		if err == nil {
			return nil
		}
		slower := min(time.Since(start)/10, maxPollInterval)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(interval, slower)):
		}
	}
}

// Output holds what processes write. It may be used concurrently.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Output) String() string { return o.from(0) }

// from returns the output after the first n bytes.
func (o *Output) from(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text.Bytes()[n:])
}

func (o *Output) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Len()
}

// Process is a child process. It may be used concurrently.
type Process struct {
	Name string  // in errors
	Log  *Output // both streams, unless the command has writers of its own

	cmd   *exec.Cmd
	ended chan struct{}
}

// StartProcess starts a command, whose process ends with this one at the latest (on
// Linux). Streams without a writer go to the log, nil for a new one.
func StartProcess(name string, cmd *exec.Cmd, log *Output) (*Process, error) {
	if log == nil {
		log = new(Output)
	}
	p := &Process{Name: name, Log: log, cmd: cmd, ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	if cmd.Stderr == nil {
		cmd.Stderr = log
	}
	endWithParent(cmd)
	started := make(chan error)
	go func() {
		defer close(p.ended)
		// Linux takes the thread that starts a process for its parent, so the thread lives
		// until the process has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // State has the result
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended returns a channel that is closed when the process has ended and its output is
// complete.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Wait waits until the process has ended and returns its state.
func (p *Process) Wait() *os.ProcessState {
	<-p.ended
	return p.cmd.ProcessState
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Kill ends the process as a crash would, and waits for its end. It may have ended before.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails when it has ended
	<-p.ended
}

// Stop sends SIGTERM and waits for the end. An exit code other than 0 is an error, and so
// is a process that Stop has to kill after Limit.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(Limit):
		p.Kill()
		return p.Explain(fmt.Errorf("stop %s: no end within %v", p.Name, Limit))
	}
	if !p.cmd.ProcessState.Success() {
		return p.Explain(fmt.Errorf("stop %s", p.Name))
	}
	return nil
}

// Explain adds to an error how the process ended, if it has, and the end of its log.
func (p *Process) Explain(err error) error {
	const shown = 8 << 10
	state := "runs"
	if !p.Running() {
		state = p.cmd.ProcessState.String()
	}
	return fmt.Errorf("%w\n%s: %s\n%s", err, p.Name, state, p.Log.from(max(0, p.Log.len()-shown)))
}

// CPU returns the processor time that the process has used, in steps of 10 ms.
func (p *Process) CPU() (time.Duration, error) {
	s, err := readStat(p.PID())
	return s.own, err
}

// Memory returns the resident memory of the process and its peak, in bytes.
func (p *Process) Memory() (resident, peak int64, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID()), "status"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		switch name {
		case "VmRSS":
			resident, err = strconv.ParseInt(kib, 10, 64)
		case "VmHWM":
			peak, err = strconv.ParseInt(kib, 10, 64)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return resident << 10, peak << 10, nil
}

// TreeCPU returns the processor time of a process and of all its descendants, with those
// that have ended.
func TreeCPU(root int) (used time.Duration, err error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	children := make(map[int][]int)
	all := make(map[int]stat)
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		s, err := readStat(pid)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // ended meanwhile
		}
		if err != nil {
			return 0, err
		}
		all[pid] = s
		children[s.parent] = append(children[s.parent], pid)
	}
	for tree := []int{root}; len(tree) > 0; tree = tree[1:] {
		used += all[tree[0]].own + all[tree[0]].ended
		tree = append(tree, children[tree[0]]...)
	}
	return used, nil
}

// stat is a part of /proc/<pid>/stat.
type stat struct {
	parent     int
	own, ended time.Duration // processor time, of the process and of its children that ended
}

func readStat(pid int) (s stat, err error) {
	const tick = 10 * time.Millisecond // on every platform that Go runs on
	name := filepath.Join("/proc", strconv.Itoa(pid), "stat")
	text, err := os.ReadFile(name)
	if err != nil {
		return s, err
	}
	// The second field, the name in parentheses, may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return s, fmt.Errorf("%s: %q is too short", name, text)
	}
	var numbers [5]int
	for i, at := range []int{1, 11, 12, 13, 14} { // parent, utime, stime, cutime, cstime
		if numbers[i], err = strconv.Atoi(fields[at]); err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
	}
	return stat{numbers[0], time.Duration(numbers[1]+numbers[2]) * tick, time.Duration(numbers[3]+numbers[4]) * tick}, nil
}
