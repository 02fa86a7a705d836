// SPDX-License-Identifier: Apache-2.0

//go:build faults && unix

package main

import (
	"os/signal"
	"syscall"
)

// Ignore SIGXFSZ, so that a write beyond RLIMIT_FSIZE fails as on a full disk instead of ending the program. Tests
// that cannot mount a small disk limit the file size.
func init() { signal.Ignore(syscall.SIGXFSZ) }
