// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"assay"
	"assay/internal/review/check"
)

// follow asks the source host for the state of the open pull requests of a repository's findings.
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
		if err := j.cfg.Store.SaveFix(ctx, j.holder, j.run.ID, ids, state); err != nil {
			return storeError{err}
		}
	}
	return nil
}

// maxFollowed limits the pull requests that a review asks for.
const maxFollowed = 20

// judgeFixes compares merged fixes with the telemetry of newer versions, and saves the fixes that it confirms. It returns
// the findings whose fixes it refutes: the code no longer has them, but their services still fail their rules. It considers
// only fixes that an earlier review found merged, and skips findings that the code still has.
func (j *job) judgeFixes(ctx context.Context, findings []*assay.CodeFinding) (refuted []*assay.CodeFinding, err error) {
	merged, _, err := j.cfg.Store.Findings(ctx, j.run.OrganizationID, assay.FindingFilter{
		RepositoryID: j.repository.ID, Status: "all", Dismissed: true, PullStatus: assay.PullMerged, Limit: assay.MaxCodebasePage,
	})
	if err != nil {
		return nil, storeError{err}
	}
	present := make(map[string]bool, len(findings))
	for _, f := range findings {
		present[f.ID] = true
	}
	var usage map[string]*assay.ServiceUsage
	for _, f := range merged {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if present[f.ID] || f.FixStatus != assay.FixMerged && f.FixStatus != assay.FixRefuted {
			continue
		}
		verdict := j.telemetry.assess(f)
		switch {
		case verdict.status == assay.FixConfirmed:
			if usage == nil {
				if usage, err = readUsage(ctx, j.cfg.Telemetry, j.run.OrganizationID); err != nil {
					return nil, storeError{err}
				}
			}
			state := assay.CodeFix{FixStatus: verdict.status, FixNote: verdict.confirmation(usage), PullRequest: f.PullRequest, PullStatus: f.PullStatus}
			if err := j.cfg.Store.SaveFix(ctx, j.holder, j.run.ID, []string{f.ID}, state); err != nil {
				return nil, storeError{err}
			}
		case verdict.status == assay.FixRefuted:
			reopened := *f
			reopened.RunID, reopened.InsightIDs = j.run.ID, verdict.insights
			reopened.FixStatus, reopened.FixNote = verdict.status, verdict.refutation()
			refuted = append(refuted, &reopened)
		case f.FixStatus == assay.FixRefuted && !f.Resolved && verdict.version != nil: // not evaluated yet
			refuted = append(refuted, f)
		}
	}
	return refuted, nil
}

// fixVerdict is the verdict of the telemetry on a merged fix.
type fixVerdict struct {
	status   string         // assay.FixConfirmed, assay.FixRefuted or "" if it shows neither
	version  *assay.Service // newest version that is newer than the finding, nil if there is none
	rules    []string       // rules of the finding; if the fix is refuted, the rules that fail
	insights []string       // ids of open insights of the version that name the subject of the finding
}

// assess returns the verdict of the newest version of the service that is newer than the finding and sent telemetry after
// the finding was resolved. The version confirms the fix if it passes all rules that the finding leads to. It refutes the
// fix if it was created after the finding was resolved, fails one of these rules, and an open insight names the subject of
// the finding.
func (t *telemetry) assess(f *assay.CodeFinding) fixVerdict {
	var body struct {
		Rules []string    `json:"rules"`
		Names check.Names `json:"names"`
	}
	if err := json.Unmarshal(f.Body, &body); err != nil || len(body.Rules) == 0 || f.Service == "" {
		return fixVerdict{}
	}
	v := fixVerdict{rules: body.Rules}
	for _, s := range t.services[f.Service] {
		if s.CreatedAt.After(f.CreatedAt) && s.LastSeenAt.After(f.ResolvedAt) && (v.version == nil || s.CreatedAt.After(v.version.CreatedAt)) {
			v.version = s
		}
	}
	if v.version == nil || v.version.Score == nil {
		return v
	}
	score := v.version.Score
	failed := slices.DeleteFunc(slices.Clone(body.Rules), func(rule string) bool { return !slices.Contains(score.FailedRuleIDs, rule) })
	if len(failed) == 0 {
		if !slices.ContainsFunc(body.Rules, func(rule string) bool { return !slices.Contains(score.EvaluatedRuleIDs, rule) }) {
			v.status = assay.FixConfirmed
		}
		return v
	}
	about := newSubject(body.Names)
	for _, e := range t.of(f.Service) {
		if e.serviceID == v.version.ID && slices.Contains(failed, e.rule) && len(v.insights) < maxLinkedInsights && e.names(about) {
			v.insights = append(v.insights, e.id)
		}
	}
	if len(v.insights) > 0 && v.version.CreatedAt.After(f.ResolvedAt) {
		v.status, v.rules = assay.FixRefuted, failed
	}
	return v
}

// confirmation names the version that confirms a fix, with the amount of its telemetry in the window.
func (v *fixVerdict) confirmation(usage map[string]*assay.ServiceUsage) string {
	text := "Fixed"
	if v.version.Version != "" {
		text += " in " + firstRunes(v.version.Version)
	}
	u := usage[v.version.ID]
	if u == nil {
		return text + "."
	}
	var seen []string
	for _, s := range []struct {
		signal assay.Signal
		items  uint64
		unit   string
	}{{assay.SignalTrace, u.Traces.Items, "span"}, {assay.SignalMetric, u.Metrics.Items, "data point"}, {assay.SignalLog, u.Logs.Items, "log record"}} {
		if s.items > 0 && slices.ContainsFunc(v.rules, func(rule string) bool { return evaluates(rule, s.signal) }) {
			if s.items > 1 {
				s.unit += "s"
			}
			seen = append(seen, humanize.Comma(int64(min(s.items, math.MaxInt64)))+" "+s.unit)
		}
	}
	if len(seen) > 0 {
		text += ", confirmed by " + strings.Join(seen, " and ")
	}
	return text + "."
}

// evaluates reports whether a rule is about a signal. Rules on resources and SDKs are about all signals.
func evaluates(rule string, s assay.Signal) bool {
	switch group, _, _ := strings.Cut(rule, "-"); group {
	case "SPA":
		return s == assay.SignalTrace
	case "MET":
		return s == assay.SignalMetric
	case "LOG":
		return s == assay.SignalLog
	default:
		return true
	}
}

// refutation names the version that refutes a fix.
func (v *fixVerdict) refutation() string {
	version := "The newest version"
	if v.version.Version != "" {
		version = firstRunes(v.version.Version)
	}
	return version + ", which is newer than the fix, fails " + strings.Join(v.rules, " and ") + "."
}

// firstRunes returns the first runes of a version, which a sender chooses.
func firstRunes(version string) string {
	if r := []rune(version); len(r) > 100 {
		return string(r[:100]) + "..."
	}
	return version
}

func readUsage(ctx context.Context, from assay.UsageStore, organizationID string) (map[string]*assay.ServiceUsage, error) {
	all, err := from.FindUsage(ctx, organizationID)
	byID := make(map[string]*assay.ServiceUsage, len(all))
	for _, u := range all {
		byID[u.Service.ID] = u
	}
	return byID, err
}
