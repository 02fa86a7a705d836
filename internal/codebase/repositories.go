// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"encoding/json"
	"time"

	"assay"
)

// severities of findings, the worst first.
var severities = []string{"critical", "high", "medium", "low", "suggestion"}

// The resources.
type (
	installationData struct {
		ID               string           `json:"id"`
		Provider         string           `json:"vcs_provider"`
		Status           string           `json:"provider_installation_status"`
		Account          string           `json:"account"`
		ActiveRepoCount  int              `json:"active_repo_count"`
		Repos            []repositoryData `json:"repos"`
		*administratorID                  // only in the administrator's list
	}
	administratorID struct {
		CreatedAt *time.Time `json:"created_at"`
		CreatedBy string     `json:"created_by"`
		LastError *string    `json:"last_error"`
	}
	repositoryData struct {
		ID                   string         `json:"id"`
		FullName             string         `json:"repo_full_name"`
		URL                  string         `json:"repo_url"`
		DefaultBranch        *string        `json:"default_branch"`
		Active               bool           `json:"is_active"`
		Provider             string         `json:"vcs_provider"`
		Access               string         `json:"repository_access_status"`
		LastScannedAt        *time.Time     `json:"last_scanned_at"`
		LastScannedCommit    *string        `json:"last_scanned_commit_sha"`
		DashboardIssueNumber *int           `json:"dashboard_issue_number"` // no forge has one yet
		ActiveFindings       int            `json:"active_findings_count"`
		FindingCounts        map[string]int `json:"finding_counts"`
	}
	repositoryDetail struct {
		Repository      repositoryData  `json:"repository"`
		Instrumentation json.RawMessage `json:"instrumentation_metadata"`
		Findings        []findingData   `json:"findings"`
	}
	activation struct {
		ID              string `json:"id"`
		Active          bool   `json:"is_active"`
		ActiveRepoCount int    `json:"active_repo_count"`
		RepoLimit       int    `json:"repo_limit"`
	}
)

func showRepository(r *assay.Repository, provider string) repositoryData {
	d := repositoryData{
		ID: r.ID, FullName: r.FullName, URL: r.URL, DefaultBranch: some(r.DefaultBranch), Active: r.Active, Provider: provider, Access: r.Access,
		LastScannedAt: moment(r.ReviewedAt), LastScannedCommit: some(r.ReviewedCommit), FindingCounts: make(map[string]int, len(severities)),
	}
	for _, s := range severities {
		d.FindingCounts[s] = r.Findings[s]
		d.ActiveFindings += r.Findings[s]
	}
	return d
}

// inventory returns the organization's installations with their repositories.
func (c *call) inventory(ctx context.Context, administrator bool) ([]installationData, error) {
	installations, err := c.cfg.Store.Installations(ctx, c.organization)
	if err != nil {
		return nil, err
	}
	repositories, err := c.cfg.Store.Repositories(ctx, c.organization)
	if err != nil {
		return nil, err
	}
	all := make([]installationData, len(installations))
	for n, i := range installations {
		all[n] = installationData{ID: i.ID, Provider: i.Provider, Status: i.Status, Account: i.Account, Repos: []repositoryData{}}
		if administrator {
			all[n].administratorID = &administratorID{CreatedAt: moment(i.CreatedAt), CreatedBy: i.CreatedBy, LastError: some(i.LastError)}
		}
		for _, r := range repositories {
			if r.InstallationID != i.ID {
				continue
			}
			all[n].Repos = append(all[n].Repos, showRepository(r, i.Provider))
			if r.Active {
				all[n].ActiveRepoCount++
			}
		}
	}
	return all, nil
}

func listInstallations(ctx context.Context, c *call) (any, error) {
	all, err := c.inventory(ctx, true)
	return pageOf(all, assay.MaxInstallations, 0, len(all)), err
}

func listRepositories(ctx context.Context, c *call) (any, error) {
	all, err := c.inventory(ctx, false)
	return pageOf(all, assay.MaxInstallations, 0, len(all)), err
}

// provider returns the provider of an installation, "" if it was deleted meanwhile.
func (c *call) provider(ctx context.Context, installationID string) (string, error) {
	installations, err := c.cfg.Store.Installations(ctx, c.organization)
	for _, i := range installations {
		if i.ID == installationID {
			return i.Provider, nil
		}
	}
	return "", err
}

func getRepository(ctx context.Context, c *call) (any, error) {
	r, err := c.repository(ctx, c.ids[0])
	if err != nil {
		return nil, err
	}
	provider, err := c.provider(ctx, r.InstallationID)
	if err != nil {
		return nil, err
	}
	findings, _, err := c.findings(ctx, assay.FindingFilter{RepositoryID: r.ID, Limit: maxFindingsPage})
	if err != nil {
		return nil, err
	}
	d := repositoryDetail{Repository: showRepository(r, provider), Findings: findings}
	if json.Valid(r.Instrumentation) {
		d.Instrumentation = r.Instrumentation
	}
	return d, nil
}

// updateRepository activates or deactivates a repository. Runs that exist continue.
func updateRepository(ctx context.Context, c *call) (any, error) {
	var active *bool
	if len(c.body) == 0 { // decode takes it for an empty object
		return nil, assay.Invalid(map[string]string{"body": "must be a JSON object"})
	}
	if err := c.decode(ctx, fields{"is_active": &active}); err != nil {
		return nil, err
	}
	if active == nil {
		return nil, unprocessable(map[string]string{"is_active": "is required"})
	}
	r, err := c.repository(ctx, c.ids[0])
	if err != nil {
		return nil, err
	}
	count, err := c.cfg.Store.ActivateRepositories(ctx, c.organization, []string{r.ID}, *active, c.cfg.RepositoryLimit)
	if err != nil {
		return nil, c.overLimit(err)
	}
	return activation{ID: r.ID, Active: *active, ActiveRepoCount: count, RepoLimit: c.cfg.RepositoryLimit}, nil
}

// overLimit explains a conflict over the limit of active repositories.
func (c *call) overLimit(err error) error {
	if assay.ErrorCode(err) != assay.CodeConflict {
		return err
	}
	return &assay.Error{
		Code: assay.CodeConflict, Message: "the organization would have more active repositories than its limit allows",
		Details: map[string]string{"limit": number(c.cfg.RepositoryLimit)},
	}
}
