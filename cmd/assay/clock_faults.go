// SPDX-License-Identifier: Apache-2.0

//go:build faults

package main

import (
	"fmt"
	"os"
	"time"
)

// clockShift is the environment variable with the offset of the clock, a duration such as -2h.
const clockShift = "FAULTS_CLOCK_SHIFT"

// wallClock is the machine's clock, shifted by clockShift.
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
