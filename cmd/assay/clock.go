// SPDX-License-Identifier: Apache-2.0

//go:build !faults

package main

import "time"

// wallClock is the clock of the machine, which everything in a server reads that
// judges, stamps or expires. A build for tests of faults has one that can be wrong.
var wallClock = time.Now
