// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	"assay/internal/delta"
)

// revised is a store that tells when what it shows of an organization may have
// changed through this process, so that an answer from a cache is never older than
// an acknowledgement. What another process changes it does not see.
type revised struct {
	store

	mu            sync.RWMutex
	everything    uint64            // changes of all organizations
	organizations map[string]uint64 // changes of one, by id
}

func newRevised(s store) *revised { return &revised{store: s, organizations: map[string]uint64{}} }

// Revision returns a number that grows with every change.
func (r *revised) Revision(organizationID string) uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.everything + r.organizations[organizationID]
}

func (r *revised) changed(organizationIDs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range organizationIDs {
		r.organizations[id]++
	}
}

// Commit implements commit.Store.
func (r *revised) Commit(ctx context.Context, now time.Time, requests []delta.Request, merge func(fresh []bool) *delta.Delta) error {
	var ids []string
	err := r.store.Commit(ctx, now, requests, func(fresh []bool) *delta.Delta {
		d := merge(fresh)
		if d != nil {
			for id := range d.Organizations {
				ids = append(ids, id)
			}
		}
		return d
	})
	r.changed(ids...) // also after an error: it may tell of a commit that was made
	return err
}

// SaveScores implements score.Store.
func (r *revised) SaveScores(ctx context.Context, f delta.Fence, organizationID string, results []delta.Result) error {
	defer r.changed(organizationID)
	return r.store.SaveScores(ctx, f, organizationID, results)
}

// SaveOrganizationScore implements score.Store.
func (r *revised) SaveOrganizationScore(ctx context.Context, f delta.Fence, organizationID string, score *float64, at time.Time) error {
	defer r.changed(organizationID)
	return r.store.SaveOrganizationScore(ctx, f, organizationID, score, at)
}

// Expire implements score.Store.
func (r *revised) Expire(ctx context.Context, now time.Time, start, metricStart delta.Bucket) error {
	defer r.changedAll()
	return r.store.Expire(ctx, now, start, metricStart)
}

// MuteInsight implements assay.InsightStore.
func (r *revised) MuteInsight(ctx context.Context, id, reason string) error {
	defer r.changedAll()
	return r.store.MuteInsight(ctx, id, reason)
}

// UnmuteInsight implements assay.InsightStore.
func (r *revised) UnmuteInsight(ctx context.Context, id string) error {
	defer r.changedAll()
	return r.store.UnmuteInsight(ctx, id)
}

func (r *revised) changedAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.everything++
}
