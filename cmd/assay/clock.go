// SPDX-License-Identifier: Apache-2.0

//go:build !faults

package main

import "time"

// wallClock is the clock of the server for evaluation, timestamps and expiry. The build for fault tests replaces it.
var wallClock = time.Now
