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

// watchInterval is how often insights are looked at.
const watchInterval = 500 * time.Millisecond

// watcher remembers insights as they were first seen.
type watcher struct {
	first map[string]Insight   // by id
	ids   map[[3]string]string // by organization, service and rule
	wrong map[string]struct{}
}

func newWatcher() *watcher {
	return &watcher{make(map[string]Insight), make(map[[3]string]string), make(map[string]struct{})}
}

// found returns what is wrong, in order.
func (w *watcher) found() []string { return slices.Sorted(maps.Keys(w.wrong)) }

// Watch looks at the insights through every replica that answers until ctx ends, and
// returns what is wrong: insights that were opened more than once.
func (f *Fleet) Watch(ctx context.Context) []string {
	w := newWatcher()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		for i := range f.Replicas {
			for organization, key := range f.Keys {
				r, err := f.reader(i)
				if err != nil {
					continue // it is down
				}
				all, _ := r.insights(ctx, organization, key) // it, or its store, may be down
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

// see compares an insight with what it was at first. What was detected again had been
// archived, and nothing archives an insight while its failures lie in the window.
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
