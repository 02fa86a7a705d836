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

// parallel has a scenario run beside others, in the short form.
func parallel(t *testing.T) {
	if !*long {
		t.Parallel()
	}
}

// loads are the loads of all scenarios: those of the same kind are the same.
var loads library

type library struct {
	mu   sync.Mutex
	kept map[kind]*known
}

type kind struct {
	rounds int
	halves bool
}

// known is a load and what it leaves without faults, once that has been tried.
type known struct {
	load *Load
	mu   sync.Mutex
	left *outcome
}

// get returns the load of a kind.
func (l *library) get(t *testing.T, rounds int, halves bool) *known {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	k := kind{rounds, halves}
	if l.kept[k] == nil {
		load, err := NewLoad(LoadConfig{
			Seed: *seed, Organizations: []string{DefaultOrganization, "second"}, Rounds: rounds,
			Newest: time.Now().Add(-time.Minute), Interval: time.Second, Halves: halves,
		})
		require.NoError(t, err)
		if l.kept == nil {
			l.kept = make(map[kind]*known)
		}
		l.kept[k] = &known{load: load}
	}
	return l.kept[k]
}

// reference returns what the load leaves without faults: on one server with SQLite,
// sent as fast as that goes.
func (k *known) reference(t *testing.T) *outcome {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == nil {
		p := plan{load: k.load, idle: "1s"}
		if k.load.Config.Halves {
			p.idle = "10s" // both halves of a trace arrive within moments
		}
		require.True(t, t.Run("reference", func(t *testing.T) { k.left = run(t, p, nil) }), "the run without faults is not as it has to be")
		k.telling(t)
	}
	return k.left
}

// telling checks that the load is one that shows faults: services fail as they promise,
// and every rule was asked and has failed somewhere.
func (k *known) telling(t *testing.T) {
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
		require.Positive(t, failed, r.ID())
	}
}
