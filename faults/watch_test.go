// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// watchInterval is the interval at which insights are read.
const watchInterval = 500 * time.Millisecond

// watcher records insights as they were first seen.
type watcher struct {
	first map[string]Insight   // by id
	ids   map[[3]string]string // by organization, service and rule
	wrong map[string]struct{}
}

func newWatcher() *watcher {
	return &watcher{make(map[string]Insight), make(map[[3]string]string), make(map[string]struct{})}
}

// found returns the violations, sorted.
func (w *watcher) found() []string { return slices.Sorted(maps.Keys(w.wrong)) }

// Watch reads the insights through every reachable replica until ctx ends. It returns the violations:
// insights that were opened more than once.
func (f *Fleet) Watch(ctx context.Context) []string {
	w := newWatcher()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		for i := range f.Replicas {
			for organization, key := range f.Keys {
				r, err := f.reader(i)
				if err != nil {
					continue // the replica is down
				}
				all, _ := r.insights(ctx, organization, key) // the replica or its store may be down
				for _, n := range all {
					w.see(n)
				}
			}
		}
		select {
		case <-ctx.Done():
			return w.found()
		case <-ticker.C:
		}
	}
}

// see compares an insight with its first version. A changed detection time means that the insight was
// archived in between, which must not happen while its failures are in the window.
func (w *watcher) see(i Insight) {
	of := [3]string{i.Organization, i.ServiceName, i.Type.RuleID}
	if id, ok := w.ids[of]; ok && id != i.ID {
		w.wrong[fmt.Sprintf("%v has two insights, %s and %s", of, id, i.ID)] = struct{}{}
	}
	w.ids[of] = i.ID
	first, ok := w.first[i.ID]
	if !ok {
		w.first[i.ID] = i
		return
	}
	if !i.CreatedAt.Equal(first.CreatedAt) || !i.DetectedAt.Equal(first.DetectedAt) {
		w.wrong[fmt.Sprintf("%v was opened twice: created %v and %v, detected %v and %v", of, first.CreatedAt, i.CreatedAt, first.DetectedAt, i.DetectedAt)] = struct{}{}
	}
}
