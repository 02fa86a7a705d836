// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	runPart  = 10 * time.Millisecond // that a program runs before yield looks whether this process is busy
	stopPart = 9 * runPart           // that it is stopped then
	busyPart = 4                     // this process is busy when it uses one of so many parts of its CPUs
)

// yield stops a program for stopPart after each runPart in which this process was busy, until the program has ended. A
// lower priority alone is not enough: a program of the lowest one still takes a tenth of the throughput of a server whose
// CPUs are never idle for long.
func yield(ended <-chan struct{}, program *os.Process) {
	alternate(ended, cpuTime, program.Signal)
}

// alternate is yield with the functions that return the processor time of this process and signal the program.
func alternate(ended <-chan struct{}, used func() time.Duration, signal func(os.Signal) error) {
	cpus := runtime.GOMAXPROCS(0)
	timer := time.NewTimer(runPart)
	defer timer.Stop()
	wait := func(d time.Duration) (running bool) {
		timer.Reset(d)
		select {
		case <-ended:
			return false
		case <-timer.C:
			return true
		}
	}
	for at, before := time.Now(), used(); wait(runPart); {
		now, after := time.Now(), used()
		busy := busyPart*(after-before).Seconds() >= now.Sub(at).Seconds()*float64(cpus)
		at, before = now, after
		if !busy {
			continue
		}
		if signal(unix.SIGSTOP) != nil || !wait(stopPart) || signal(unix.SIGCONT) != nil {
			return // the program has ended
		}
	}
}

// cpuTime returns the processor time that this process has used, without its children.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
