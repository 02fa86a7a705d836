// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"slices"

	"assay"
)

// follow asks the source host what became of the open pull requests of a repository's findings.
func (j *job) follow(ctx context.Context) error {
	open, _, err := j.cfg.Store.Findings(ctx, j.run.OrganizationID, assay.FindingFilter{
		RepositoryID: j.repository.ID, Status: "all", Dismissed: true, PullStatus: assay.PullOpen, Limit: assay.MaxCodebasePage,
	})
	if err != nil {
		return storeError{err}
	}
	byPull := map[int][]string{}
	for _, f := range open {
		byPull[f.PullRequest] = append(byPull[f.PullRequest], f.ID)
	}
	asked := 0
	for number, ids := range byPull { // in random order, so that each is asked for in time
		if asked++; asked > maxFollowed {
			break
		}
		pull, err := j.cfg.Sources.Pull(ctx, j.installation, j.repository, number)
		if err != nil {
			j.cfg.Logger.InfoContext(ctx, "failed to read a pull request", "run", j.run.ID, "number", number, "error", err)
			continue
		}
		state := assay.CodeFix{PullRequest: number, PullStatus: pull.State}
		switch pull.State {
		case assay.PullOpen:
			continue
		case assay.PullMerged:
			state.FixStatus = assay.FixMerged
		}
		if err := j.cfg.Store.SaveFix(ctx, j.cfg.Holder, j.run.ID, ids, state); err != nil {
			return storeError{err}
		}
	}
	return nil
}

// maxFollowed limits the pull requests that a review asks for.
const maxFollowed = 20

// confirm marks merged fixes that telemetry confirms. It sees only those that an earlier review found merged.
func (j *job) confirm(ctx context.Context) error {
	merged, _, err := j.cfg.Store.Findings(ctx, j.run.OrganizationID, assay.FindingFilter{
		RepositoryID: j.repository.ID, Status: "resolved", Dismissed: true, PullStatus: assay.PullMerged, Limit: assay.MaxCodebasePage,
	})
	if err != nil {
		return storeError{err}
	}
	byPull := map[int][]string{}
	for _, f := range merged {
		if f.FixStatus == assay.FixMerged && j.telemetry.confirms(f) {
			byPull[f.PullRequest] = append(byPull[f.PullRequest], f.ID)
		}
	}
	for number, ids := range byPull {
		state := assay.CodeFix{FixStatus: assay.FixConfirmed, PullRequest: number, PullStatus: assay.PullMerged}
		if err := j.cfg.Store.SaveFix(ctx, j.cfg.Holder, j.run.ID, ids, state); err != nil {
			return storeError{err}
		}
	}
	return nil
}

// confirms reports whether a version of the service that is newer than the finding, and still sends telemetry after the
// finding was resolved, passes all rules that the finding leads to.
func (t *telemetry) confirms(f *assay.CodeFinding) bool {
	var body struct {
		Rules []string `json:"rules"`
	}
	if err := json.Unmarshal(f.Body, &body); err != nil || len(body.Rules) == 0 || f.Service == "" {
		return false
	}
	var newest *assay.Service
	for _, s := range t.services[f.Service] {
		if s.CreatedAt.After(f.CreatedAt) && s.LastSeenAt.After(f.ResolvedAt) && (newest == nil || s.CreatedAt.After(newest.CreatedAt)) {
			newest = s
		}
	}
	if newest == nil || newest.Score == nil {
		return false
	}
	return !slices.ContainsFunc(body.Rules, func(rule string) bool {
		return !slices.Contains(newest.Score.EvaluatedRuleIDs, rule) || slices.Contains(newest.Score.FailedRuleIDs, rule)
	})
}
