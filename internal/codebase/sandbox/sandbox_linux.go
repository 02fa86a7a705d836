// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// argument is the first argument of a child that sets its limits and executes another program.
const argument = "agent-child"

// exitLimits is the exit code of a child that could not set its limits or execute the program.
const exitLimits = 125

// niceness is the niceness of programs, so that the server's requests run first. A higher niceness of the server is kept.
const niceness = 10

// Main sets limits and executes a program, or runs as the first process of a container, if the arguments of this process
// request it. Then it does not return. Call it first in main, and in TestMain of tests that run programs or containers.
func Main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == initArgument:
		if err = runInit(os.Args[2]); err == nil {
			os.Exit(0)
		}
	case len(os.Args) >= 4 && os.Args[1] == argument:
		err = become(os.Args[2], os.Args[3:])
	case len(os.Args) >= 4 && os.Args[1] == stageArgument:
		err = runStage(os.Args[2], os.Args[3:])
	default:
		return
	}
	fmt.Fprintln(os.Stderr, "assay:", err)
	os.Exit(exitLimits)
}

// child configures a child process, before the child executes a program.
type child struct {
	Limits
	Processes int  // of the user in its namespace; 0 means unlimited
	Confined  bool // in a container
}

func become(limits string, argv []string) error {
	runtime.LockOSThread() // priorities, attributes and filters belong to the thread that executes the program
	var l child
	if err := json.Unmarshal([]byte(limits), &l); err != nil {
		return fmt.Errorf("decode limits: %w", err)
	}
	for _, r := range []struct {
		resource int
		limit    int64
	}{
		{unix.RLIMIT_FSIZE, l.File},
		{unix.RLIMIT_CPU, int64((l.CPU + time.Second - 1) / time.Second)},
		{unix.RLIMIT_NOFILE, int64(l.Files)},
		{unix.RLIMIT_NPROC, int64(l.Processes)},
	} {
		if r.limit <= 0 {
			continue
		}
		if err := lower(r.resource, uint64(r.limit)); err != nil {
			return fmt.Errorf("set limit %d: %w", r.resource, err)
		}
	}
	if err := lower(unix.RLIMIT_CORE, 0); err != nil {
		return fmt.Errorf("disable core files: %w", err)
	}
	if err := lowerPriority(); err != nil {
		return fmt.Errorf("lower the priority: %w", err)
	}
	if !l.Confined {
		// If memory runs out, the kernel kills this process before the server. The program also runs without it.
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("drop privileges: %w", err)
	}
	// RLIMIT_DATA counts private writable memory. RLIMIT_AS would count address space that the Go runtime reserves. This
	// process may already exceed the limit, above all with the race detector. So from here on, it allocates only memory that
	// the garbage collector has freed, and it starts no thread, which would need a stack.
	environment := os.Environ()
	runtime.GOMAXPROCS(1)
	runtime.KeepAlive(make([]byte, spare))
	runtime.GC()
	debug.SetGCPercent(-1)
	if l.Memory > 0 {
		if err := lower(unix.RLIMIT_DATA, uint64(l.Memory)); err != nil {
			return fmt.Errorf("set limit %d: %w", unix.RLIMIT_DATA, err)
		}
	}
	if l.Confined {
		if err := errors.Join(restrictLimits(), restrictFiles(), restrictCalls()); err != nil {
			return err
		}
	}
	return fmt.Errorf("execute %s: %w", argv[0], syscall.Exec(argv[0], argv, environment))
}

// spare is memory for the allocations of this process under the limit of memory.
const spare = 1 << 20

// lower sets a limit that is not above the hard limit of this process.
func lower(resource int, limit uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	limit = min(limit, now.Max)
	// Not unix.Setrlimit: syscall.Exec restores the limit of files that syscall.Setrlimit has not set.
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit})
}

// lowerPriority raises the niceness of this thread to niceness, unless it is higher: only a privileged process may lower
// it.
func lowerPriority() error {
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	if now = 20 - now; now >= niceness { // the system call returns 20-nice
		return nil
	}
	return unix.Setpriority(unix.PRIO_PROCESS, 0, niceness)
}

// command returns the child for a program.
func command(ctx context.Context, c *Command, isolated bool) (*exec.Cmd, error) {
	self, err := Self()
	if err != nil {
		return nil, err
	}
	limits, err := json.Marshal(child{Limits: c.Limits})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{argument, string(limits), c.Path}, c.Args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if isolated {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNET
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd, nil
}
