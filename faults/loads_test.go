// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/demo"
	"assay/internal/rules/catalog"
)

// parallel runs a scenario in parallel with others in the short form.
func parallel(t *testing.T) {
	if !*long {
		t.Parallel()
	}
}

// loads holds the loads of all scenarios. Scenarios of the same kind share a load.
var loads library

type library struct {
	mu    sync.Mutex
	loads map[kind]*known
}

type kind struct {
	rounds int
	halves bool
}

// known is a load and its outcome without faults, once that was measured.
type known struct {
	load *Load
	mu   sync.Mutex
	left *outcome
}

// get returns the load with the number of rounds, with or without halves.
func (l *library) get(t *testing.T, rounds int, halves bool) *known {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	k := kind{rounds, halves}
	if l.loads[k] == nil {
		load, err := NewLoad(LoadConfig{
			Seed: *seed, Organizations: []string{DefaultOrganization, "second"}, Rounds: rounds,
			Newest: time.Now().Add(-time.Minute), Interval: time.Second, Halves: halves,
		})
		require.NoError(t, err)
		if l.loads == nil {
			l.loads = make(map[kind]*known)
		}
		l.loads[k] = &known{load: load}
	}
	return l.loads[k]
}

// reference returns the outcome of the load without faults: sent at full speed to one server with SQLite.
func (k *known) reference(t *testing.T) *outcome {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == nil {
		p := plan{load: k.load, idle: "1s"}
		if k.load.Config.Halves {
			p.idle = "10s" // both halves of a trace arrive within a short time
		}
		require.True(t, t.Run("reference", func(t *testing.T) { k.left = run(t, p, nil) }), "the run without faults failed")
		k.requireCoverage(t)
	}
	return k.left
}

// requireCoverage checks that the load can reveal faults: services fail the rules that they are designed to fail, and
// every rule was evaluated and has failed at least once.
func (k *known) requireCoverage(t *testing.T) {
	t.Helper()
	for organization, state := range k.left.states {
		for _, s := range demo.Services() {
			require.Equal(t, s.Fails, state.Services[s.Name].Active, "%s/%s", organization, s.Name)
		}
		if k.load.Config.Halves {
			require.Equal(t, []string{"SPA-001"}, state.Services[backService].Active)
			require.Empty(t, state.Services[frontService].Active)
		}
	}
	for r := range catalog.Rule(catalog.Scored) {
		failed := uint64(0)
		for _, rules := range k.left.verdicts {
			failed += rules[r.ID()].Failed
		}
		require.Positive(t, failed, "no service of internal/demo fails %s", r.ID())
	}
}
