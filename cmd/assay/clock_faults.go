// SPDX-License-Identifier: Apache-2.0

//go:build faults

package main

import (
	"fmt"
	"os"
	"time"
)

// clockShift names the environment variable that says how far the clock is wrong,
// as a duration such as -2h.
const clockShift = "FAULTS_CLOCK_SHIFT"

// wallClock is the clock of a machine that is wrong by clockShift.
var wallClock = shifted(os.Getenv(clockShift))

func shifted(by string) func() time.Time {
	if by == "" {
		return time.Now
	}
	shift, err := time.ParseDuration(by)
	if err != nil {
		fmt.Fprintf(os.Stderr, "assay: %s: %v\n", clockShift, err)
		os.Exit(2)
	}
	return func() time.Time { return time.Now().Add(shift) }
}
