// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"flag"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	long     = flag.Bool("faults.long", false, "Run the long form of every scenario")
	duration = flag.Duration("faults.duration", 5*time.Minute, "Duration of the load on three replicas, in the long form")
	seed     = flag.Uint64("faults.seed", 1, "Seed of the generated loads")
	reports  = flag.String("faults.reports", "../bin/faults", "Directory for the reports of the scenarios")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Scenarios are idle most of the time, so several of the short ones run on each CPU.
	if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.NumCPU())); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// in returns the value for the short or the long form.
func in[T any](short, longer T) T {
	if *long {
		return longer
	}
	return short
}
