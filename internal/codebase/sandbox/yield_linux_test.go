// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestYield has a process use a part of its CPUs for ten seconds and looks at how long a program runs beside it.
func TestYield(t *testing.T) {
	for name, c := range map[string]struct {
		used float64 // of the CPUs
		runs time.Duration
	}{
		"idle":  {0, 10 * time.Second},
		"a bit": {0.24, 10 * time.Second},
		"busy":  {0.26, time.Second},
		"all":   {1, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				used := func() time.Duration {
					return time.Duration(c.used * float64(time.Since(began)) * float64(runtime.GOMAXPROCS(0)))
				}
				var ran time.Duration
				since := began // when the program was continued last; zero if it is stopped
				signal := func(s os.Signal) error {
					switch s {
					case unix.SIGSTOP:
						require.False(t, since.IsZero())
						ran += time.Since(since)
						since = time.Time{}
					case unix.SIGCONT:
						require.True(t, since.IsZero())
						since = time.Now()
					}
					return nil
				}
				ended, returned := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(returned)
					alternate(ended, used, signal)
				}()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if !since.IsZero() {
					ran += time.Since(since)
				}
				close(ended)
				<-returned
				require.InDelta(t, c.runs, ran, float64(20*time.Millisecond))
			})
		})
	}
}

// TestYieldEnds runs programs that end, fail and are killed while this process is busy.
func TestYieldEnds(t *testing.T) {
	var ended atomic.Bool
	defer ended.Store(true)
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for !ended.Load() {
				continue
			}
		}()
	}
	c := shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo $i")
	out := &Buffer{Max: 100}
	c.Yield, c.Output = true, out
	require.NoError(t, Run(t.Context(), c))
	require.Equal(t, "20000\n", out.String())

	c = shell("exit 3")
	c.Yield = true
	var failed *Error
	require.ErrorAs(t, Run(t.Context(), c), &failed)

	c = shell("echo; while :; do :; done")
	out = &Buffer{}
	c.Yield, c.Output = true, out
	require.ErrorIs(t, Run(t.Context(), c), ErrTooMuchOutput)
}
