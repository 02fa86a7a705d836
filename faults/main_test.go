// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"flag"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	long     = flag.Bool("faults.long", false, "run the long form of every scenario")
	duration = flag.Duration("faults.duration", 5*time.Minute, "of the load on three replicas, in the long form")
	seed     = flag.Uint64("faults.seed", 1, "of the loads")
	reports  = flag.String("faults.reports", "../bin/faults", "directory for the reports of the scenarios")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Scenarios wait for most of their time: all of the short ones run at once.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// program builds the program once, and returns its path. It lies under bin, which is
// not part of the repository, so that one copy is left at most.
var program = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs("../bin/faults/assay")
	if err != nil {
		return "", err
	}
	return path, Build(context.Background(), path)
})

// in returns one of two values: for the short form, or for the long one.
func in[T any](short, longer T) T {
	if *long {
		return longer
	}
	return short
}
