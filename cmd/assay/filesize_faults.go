// SPDX-License-Identifier: Apache-2.0

//go:build faults && unix

package main

import (
	"os/signal"
	"syscall"
)

// A write past RLIMIT_FSIZE fails, as on a full disk, instead of ending the program:
// where a test may not mount a small disk it limits the size of files.
func init() { signal.Ignore(syscall.SIGXFSZ) }
