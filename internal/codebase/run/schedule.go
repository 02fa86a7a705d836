// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"math/rand/v2"
	"time"

	"assay"
)

const (
	reviewInterval   = 24 * time.Hour // between reviews of an active repository
	scheduleInterval = time.Minute    // average interval between queries for repositories that are due
	scheduleBatch    = 20             // repositories at a time, so that they do not all begin at once
	keepResolved     = 90 * 24 * time.Hour
	expireInterval   = time.Hour
)

// schedule schedules the reviews that are due, and deletes old runs and findings, until ctx ends. It runs in every
// process, since the store does not schedule a pending run twice.
func (w *Worker) schedule(ctx context.Context) {
	var expired time.Time
	timer := time.NewTimer(jitter())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(jitter())
		}
		if err := w.scheduleDue(ctx); err != nil && ctx.Err() == nil {
			w.cfg.Logger.ErrorContext(ctx, "failed to schedule reviews", "error", err)
		}
		if now := w.cfg.Now(); now.Sub(expired) >= expireInterval {
			expired = now
			if err := w.cfg.Store.ExpireCodebase(ctx, now.Add(-keepResolved)); err != nil && ctx.Err() == nil {
				w.cfg.Logger.ErrorContext(ctx, "failed to expire runs and findings", "error", err)
			}
		}
	}
}

func jitter() time.Duration { return scheduleInterval/2 + rand.N(scheduleInterval) }

// scheduleDue schedules reviews of repositories whose last review is older than reviewInterval.
func (w *Worker) scheduleDue(ctx context.Context) error {
	due, err := w.cfg.Store.DueRepositories(ctx, w.cfg.Now().Add(-reviewInterval), scheduleBatch)
	if err != nil {
		return err
	}
	for _, r := range due {
		_, _, err := w.cfg.Store.ScheduleRun(ctx, &assay.Run{
			OrganizationID: r.OrganizationID, RepositoryID: r.ID, InstallationID: r.InstallationID, RepositoryName: r.FullName,
			Type: assay.RunReview, Status: assay.RunPending, Trigger: assay.TriggerScheduled,
		})
		// The store rejects a run if there are too many, or if the repository was deleted.
		if code := assay.ErrorCode(err); err != nil && code != assay.CodeConflict && code != assay.CodeNotFound {
			return err
		}
	}
	if len(due) > 0 {
		w.Wake()
	}
	return nil
}
