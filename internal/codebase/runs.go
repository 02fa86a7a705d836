// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"assay"
	"assay/internal/codebase/run"
	"assay/internal/lists"
)

var (
	runTypes    = []string{assay.RunReview, assay.RunFix, assay.RunInstrumentation, assay.RunMigration}
	runStatuses = []string{assay.RunPending, assay.RunRunning, assay.RunCompleted, assay.RunFailed, assay.RunCancelled}
)

// The resources.
type (
	runData struct {
		ID             string     `json:"id"`
		Type           string     `json:"executionType"`
		Status         string     `json:"status"`
		Trigger        string     `json:"triggerSource"`
		Ref            *string    `json:"ref"`
		Commit         *string    `json:"commitSha"`
		StartedAt      *time.Time `json:"startedAt"`
		CompletedAt    *time.Time `json:"completedAt"`
		RepositoryID   string     `json:"repositoryId"`
		InstallationID string     `json:"installationId"`
		Owner          string     `json:"repoOwner"`
		Name           string     `json:"repoName"`
		CurrentPhase   *string    `json:"currentPhase"`
		CreatedAt      *time.Time `json:"createdAt"` // an addition
		Error          *string    `json:"error"`     // an addition: why it failed
	}
	phaseData struct {
		ID          string     `json:"id"`
		Key         string     `json:"key"`
		Label       string     `json:"label"`
		Order       int        `json:"order"`
		State       string     `json:"state"` // pending, running, completed, failed, cancelled, skipped
		StartedAt   *time.Time `json:"startedAt"`
		CompletedAt *time.Time `json:"completedAt"`
	}
	timelineEvent struct {
		CreatedAt  *time.Time `json:"createdAt"`
		Name       string     `json:"eventName"`
		Message    string     `json:"message"`
		Phase      *string    `json:"phaseKey"`
		Transition *string    `json:"transition"`
	}
	runDetail struct {
		Execution    runData         `json:"execution"`
		CurrentPhase *string         `json:"currentPhase"`
		Phases       []phaseData     `json:"phases"`
		Events       []timelineEvent `json:"events"`
		Running      bool            `json:"running"`
		LastSeenAt   *time.Time      `json:"lastSeenAt"`
		Activity     *string         `json:"activity"`
		Result       json.RawMessage `json:"result"`
	}
	scheduled struct {
		Status      string `json:"status"` // scheduled, already_pending
		ExecutionID string `json:"executionId"`
		Message     string `json:"message"`
	}
)

func showRun(r *assay.Run) runData {
	d := runData{
		ID: r.ID, Type: r.Type, Status: r.Status, Trigger: r.Trigger, Ref: some(r.Ref), Commit: some(r.Commit), StartedAt: moment(r.StartedAt),
		CompletedAt: moment(r.EndedAt), RepositoryID: r.RepositoryID, InstallationID: r.InstallationID, Name: r.RepositoryName,
		CurrentPhase: some(r.Phase), CreatedAt: moment(r.CreatedAt), Error: some(r.Error),
	}
	if i := strings.LastIndexByte(r.RepositoryName, '/'); i >= 0 {
		d.Owner, d.Name = r.RepositoryName[:i], r.RepositoryName[i+1:]
	}
	return d
}

// showPhases returns all phases of a run. The last one that began ends with the run.
func showPhases(r *assay.Run) []phaseData {
	id, _ := uuid.Parse(r.ID) // the name space of the phases' ids
	ended := !slices.Contains([]string{assay.RunPending, assay.RunRunning}, r.Status)
	all := []phaseData{}
	for i, p := range run.Phases(r.Type) {
		d := phaseData{ID: uuid.NewSHA1(id, []byte(p.Key)).String(), Key: p.Key, Label: p.Label, Order: i + 1, State: "pending"}
		if ended {
			d.State = "skipped"
		}
		for _, t := range r.PhaseTimes {
			switch {
			case t.Key != p.Key:
				continue
			case !t.Ended.IsZero():
				d.State = "completed"
			case ended && r.Status != assay.RunCompleted:
				d.State = r.Status
			default:
				d.State = "running"
			}
			d.StartedAt, d.CompletedAt = moment(t.Started), moment(t.Ended)
			if d.CompletedAt == nil && ended {
				d.CompletedAt = moment(r.EndedAt)
			}
		}
		all = append(all, d)
	}
	return all
}

// run returns the run of the path.
func (c *call) run(ctx context.Context) (*assay.Run, error) {
	none := assay.Errorf(assay.CodeNotFound, "no such run")
	id, ok := canonicalID(c.ids[0])
	if !ok {
		return nil, none
	}
	r, err := c.cfg.Store.Run(ctx, c.organization, id)
	if assay.ErrorCode(err) == assay.CodeNotFound {
		return nil, none
	}
	return r, err
}

func listRuns(ctx context.Context, c *call) (any, error) {
	p := c.params()
	f := assay.RunFilter{
		Limit: p.integer("limit", 50, 1, 100), Offset: p.integer("offset", 0, 0, maxOffset), RepositoryID: p.id("repositoryId"),
		Statuses: p.list("status", runStatuses...), Types: p.list("executionType", runTypes...),
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	found, total, err := c.cfg.Store.Runs(ctx, c.organization, f)
	if err != nil {
		return nil, err
	}
	all := lists.Map(found, showRun)
	return pageOf(all, f.Limit, f.Offset, total), nil
}

// maxTimeline limits the events of a run's detail: the first ones. agent-events has all.
const maxTimeline = 1000

func getRun(ctx context.Context, c *call) (any, error) {
	r, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	events, _, err := c.cfg.Store.RunEvents(ctx, c.organization, r.ID, -1, maxTimeline)
	if err != nil {
		return nil, err
	}
	d := runDetail{
		Execution: showRun(r), CurrentPhase: some(r.Phase), Phases: showPhases(r), Events: []timelineEvent{},
		Running: r.Status == assay.RunRunning, LastSeenAt: moment(r.SeenAt),
	}
	for _, e := range events {
		d.Events = append(d.Events, timelineEvent{moment(e.At), e.Name, e.Message, some(e.Phase), some(e.Transition)})
		if d.Running {
			d.Activity = &e.Message
		}
	}
	d.Result, err = c.result(ctx, r)
	return d, err
}

// result returns the result of a run with the address of its patch, if it has one.
func (c *call) result(ctx context.Context, r *assay.Run) (json.RawMessage, error) {
	if r.Type == assay.RunReview || len(r.Result) == 0 {
		return r.Result, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(r.Result, &members); err != nil {
		return nil, fmt.Errorf("read the result of run %s: %w", r.ID, err)
	}
	_, err := c.cfg.Store.Patch(ctx, c.organization, r.ID)
	if assay.ErrorCode(err) == assay.CodeNotFound {
		return r.Result, nil
	}
	if err != nil {
		return nil, err
	}
	if members["patch_url"], err = json.Marshal(cmp.Or(c.cfg.PublicURL, "/v1/agent") + "/executions/" + r.ID + "/patch"); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// patchData has the changes of a run.
type patchData struct {
	Format   string `json:"format"` // git: git apply takes it
	Patch    string `json:"patch"`
	Encoding string `json:"encoding,omitempty"` // base64 for a patch that is not UTF-8
}

func getPatch(ctx context.Context, c *call) (any, error) {
	r, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	patch, err := c.cfg.Store.Patch(ctx, c.organization, r.ID)
	if assay.ErrorCode(err) == assay.CodeNotFound {
		return nil, assay.Errorf(assay.CodeNotFound, "this run has no patch")
	}
	if err != nil || utf8.Valid(patch) {
		return patchData{Format: "git", Patch: string(patch)}, err
	}
	return patchData{"git", base64.StdEncoding.EncodeToString(patch), "base64"}, nil
}

// cancelRun ends a pending run and asks a running one to end. It has no effect on a run that has ended.
func cancelRun(ctx context.Context, c *call) (any, error) {
	if err := c.decode(ctx, fields{}); err != nil {
		return nil, err
	}
	r, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.cfg.Store.CancelRun(ctx, c.organization, r.ID); err != nil {
		return nil, err
	}
	if r, err = c.run(ctx); err != nil {
		return nil, err
	}
	return showRun(r), nil
}

func executeReview(ctx context.Context, c *call) (any, error) {
	var id *string
	if err := c.decode(ctx, fields{"repo_id": &id}); err != nil {
		return nil, err
	}
	return c.schedule(ctx, id, assay.RunReview, nil, nil)
}

func executeInstrumentation(ctx context.Context, c *call) (any, error) {
	var id, kind *string
	var publish *bool
	if err := c.decode(ctx, fields{"repo_id": &id, "type": &kind, "publish": &publish}); err != nil {
		return nil, err
	}
	details := map[string]string{}
	if kind == nil || *kind != "minimum" && *kind != "general" {
		details["type"] = "must be minimum or general"
	}
	return c.schedule(ctx, id, assay.RunInstrumentation, withPublish(map[string]any{"type": kind}, publish), details)
}

// executeMigration starts a migration if the organization's plan has them.
func executeMigration(ctx context.Context, c *call) (any, error) {
	o, err := c.cfg.Organizations.FindOrganizationByID(ctx, c.organization)
	if err != nil {
		return nil, err
	}
	if o.Tier != assay.TierEnterprise {
		return nil, assay.Errorf(assay.CodeForbidden, "the organization's plan has no partner migrations")
	}
	var id *string
	var publish *bool
	if err := c.decode(ctx, fields{"repo_id": &id, "publish": &publish}); err != nil {
		return nil, err
	}
	return c.schedule(ctx, id, assay.RunMigration, withPublish(map[string]any{}, publish), nil)
}

// withPublish adds whether a run is to publish its change, an addition: false makes the patch alone.
func withPublish(input map[string]any, publish *bool) map[string]any {
	if publish != nil {
		input["publish"] = *publish
	}
	return input
}

// maxFixes limits the findings of a fix.
const maxFixes = 10

func executeFix(ctx context.Context, c *call) (any, error) {
	var id *string
	var ids []string
	var issue *int
	var publish *bool // an addition: false makes the patch alone
	if err := c.decode(ctx, fields{"repo_id": &id, "finding_ids": &ids, "issue_number": &issue, "publish": &publish}); err != nil {
		return nil, err
	}
	details := map[string]string{}
	input := map[string]any{}
	switch {
	case len(ids) == 0 || len(ids) > maxFixes:
		details["finding_ids"] = "must have 1 to " + number(maxFixes) + " ids"
	case slices.ContainsFunc(ids, func(id string) bool { return !findingID.MatchString(id) }):
		details["finding_ids"] = "has an id that is none of the repository's active findings"
	default:
		input["finding_ids"] = slices.Compact(slices.Sorted(slices.Values(ids)))
	}
	withPublish(input, publish)
	if issue != nil {
		if *issue < 1 {
			details["issue_number"] = "must be positive"
		}
		input["issue_number"] = *issue
	}
	return c.schedule(ctx, id, assay.RunFix, input, details)
}

// schedule schedules a run on an active repository. details are the errors in the rest of the body.
func (c *call) schedule(ctx context.Context, repositoryID *string, kind string, input map[string]any, details map[string]string) (any, error) {
	if repositoryID == nil {
		if details == nil {
			details = map[string]string{}
		}
		details["repo_id"] = "is required"
	}
	if err := unprocessable(details); err != nil {
		return nil, err
	}
	r, err := c.repository(ctx, *repositoryID)
	if err != nil {
		return nil, err
	}
	if !r.Active {
		return nil, assay.Errorf(assay.CodeConflict, "the repository is not active")
	}
	if kind == assay.RunFix {
		if err := c.checkFindings(ctx, r.ID, input["finding_ids"].([]string)); err != nil {
			return nil, err
		}
	}
	var text json.RawMessage
	if len(input) > 0 {
		if text, err = json.Marshal(input); err != nil {
			return nil, err
		}
	}
	made, created, err := c.cfg.Store.ScheduleRun(ctx, &assay.Run{
		OrganizationID: c.organization, RepositoryID: r.ID, InstallationID: r.InstallationID, RepositoryName: r.FullName,
		Type: kind, Status: assay.RunPending, Trigger: assay.TriggerManual, Input: text,
	})
	if err != nil {
		return nil, err
	}
	c.cfg.Wake()
	if !created {
		return scheduled{"already_pending", made.ID, "a run of this type is pending for the repository"}, nil
	}
	return scheduled{"scheduled", made.ID, "the run is scheduled"}, nil
}

// checkFindings returns an error unless all ids are active findings of a repository.
func (c *call) checkFindings(ctx context.Context, repositoryID string, ids []string) error {
	f := assay.FindingFilter{RepositoryID: repositoryID, Dismissed: true, Limit: maxFindingsPage}
	missing := len(ids)
	for missing > 0 {
		page, total, err := c.cfg.Store.Findings(ctx, c.organization, f)
		if err != nil {
			return err
		}
		for _, found := range page {
			if slices.Contains(ids, found.ID) {
				missing--
			}
		}
		if f.Offset += len(page); len(page) == 0 || f.Offset >= total {
			break
		}
	}
	if missing > 0 {
		return unprocessable(map[string]string{"finding_ids": "has an id that is none of the repository's active findings"})
	}
	return nil
}
