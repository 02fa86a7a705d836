// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"assay"
	"assay/internal/report"
	"assay/internal/requestid"
)

// The parts of the agent's resources that pages show.
type (
	agentInstallation struct {
		ID       string            `json:"id"`
		Provider string            `json:"vcs_provider"`
		Status   string            `json:"provider_installation_status"`
		Account  string            `json:"account"`
		Repos    []agentRepository `json:"repos"`
	}
	agentRepository struct {
		ID             string         `json:"id"`
		Name           string         `json:"repo_full_name"`
		URL            string         `json:"repo_url"`
		Branch         string         `json:"default_branch"`
		Active         bool           `json:"is_active"`
		Provider       string         `json:"vcs_provider"`
		Access         string         `json:"repository_access_status"`
		ReviewedAt     *time.Time     `json:"last_scanned_at"`
		ReviewedCommit string         `json:"last_scanned_commit_sha"`
		Findings       int            `json:"active_findings_count"`
		Counts         map[string]int `json:"finding_counts"`
	}
	agentInstrumentation struct {
		Present   bool     `json:"otel_present"`
		Signals   []string `json:"signals"`
		SDKs      []string `json:"detected_sdks"`
		Types     []string `json:"instrumentation_types"`
		Languages []string `json:"languages"`
		Services  []string `json:"services"`
		Summary   string   `json:"summary_text"`
	}
	agentFinding struct {
		ID              string          `json:"finding_id"`
		RepositoryID    string          `json:"repository_id"`
		Repository      string          `json:"repo_full_name"`
		RunID           string          `json:"execution_id"`
		Check           string          `json:"check"`
		Rules           []string        `json:"rules"`
		Insights        []string        `json:"insight_ids"`
		Severity        string          `json:"severity"`
		Category        string          `json:"category"`
		Title           string          `json:"display_title"`
		Summary         string          `json:"summary"`
		Why             string          `json:"why"`
		Fix             string          `json:"fix"`
		Locations       []agentLocation `json:"locations"`
		Status          string          `json:"status"`
		Dismissed       bool            `json:"dismissed"`
		DismissedReason string          `json:"dismissed_reason"`
		Fixable         bool            `json:"fixable"`
		FixStatus       string          `json:"fix_status"`
		FixNote         string          `json:"fix_note"`
		PullRequest     int             `json:"pr_number"`
		PullStatus      string          `json:"pr_status"`
		CreatedAt       *time.Time      `json:"created_at"`
		ResolvedAt      *time.Time      `json:"resolved_at"`
	}
	agentLocation struct {
		File        string        `json:"file"`
		Line        int           `json:"line"`
		Description string        `json:"description"`
		Excerpt     *agentExcerpt `json:"excerpt"`
	}
	agentExcerpt struct {
		Start int      `json:"start_line"`
		Lines []string `json:"lines"`
	}
	agentRun struct {
		ID           string     `json:"id"`
		Type         string     `json:"executionType"`
		Status       string     `json:"status"`
		Trigger      string     `json:"triggerSource"`
		Commit       string     `json:"commitSha"`
		Started      *time.Time `json:"startedAt"`
		Completed    *time.Time `json:"completedAt"`
		RepositoryID string     `json:"repositoryId"`
		Owner        string     `json:"repoOwner"`
		Name         string     `json:"repoName"`
		Phase        string     `json:"currentPhase"`
	}
	agentPhase struct {
		Key       string     `json:"key"`
		Label     string     `json:"label"`
		State     string     `json:"state"`
		Started   *time.Time `json:"startedAt"`
		Completed *time.Time `json:"completedAt"`
	}
	agentEvent struct {
		At         time.Time `json:"createdAt"`
		Name       string    `json:"eventName"`
		Message    string    `json:"message"`
		Phase      string    `json:"phaseKey"`
		Transition string    `json:"transition"`
	}
	// agentResult is the result of a run: its findings or its change.
	agentResult struct {
		Findings     int                `json:"finding_count"`
		Branch       string             `json:"branch"`
		PullRequest  string             `json:"pull_request_url"`
		PatchURL     string             `json:"patch_url"`
		Fixed        []string           `json:"fixed_finding_ids"`
		Kind         string             `json:"type"` // of an instrumentation
		Steps        []agentStep        `json:"steps"`
		Note         string             `json:"note"`
		Preview      bool               `json:"preview"`
		Model        *agentModel        `json:"model"`
		Verification *agentVerification `json:"verification"`
	}
	// agentModel is the use of a language model by a run.
	agentModel struct {
		Name  string `json:"name"`
		Usage struct {
			Total int     `json:"totalTokens"`
			Cost  float64 `json:"costTotal"`
		} `json:"usage"`
	}
	// agentVerification is the evidence for a change.
	agentVerification struct {
		Status string                   `json:"status"`
		Reason string                   `json:"reason"`
		Tests  report.Pair[*agentTests] `json:"tests"`
		Rules  []report.RuleStates      `json:"rules"`
		Scores []report.Scores          `json:"scores"`
		Review struct {
			Before int `json:"findings_before"`
			After  int `json:"findings_after"`
		} `json:"review"`
	}
	// agentStep is a part of a change, or a step that users have to do.
	agentStep struct {
		File string `json:"file"`
		Line int    `json:"line"`
		Text string `json:"text"`
		Open bool   `json:"open"`
	}
	agentTests struct {
		Passed bool   `json:"passed"`
		Output string `json:"output"` // without sensitive data
	}
	// agentPage is a list with its pagination.
	agentPage[T any] struct {
		Data       []T `json:"data"`
		Pagination struct {
			Total int `json:"total"`
		} `json:"pagination"`
	}
)

// callAgent calls an operation of the agent and decodes its answer into answer, unless that is nil. Pages use the
// operations that API clients use, so they show the repositories of an agent in another process as well.
func (q *request) callAgent(operation, method, path string, query url.Values, body, answer any) error {
	if q.cfg.Agent == nil {
		return assay.Errorf(assay.CodeNotFound, "the agent is not configured")
	}
	if !q.session.Allows(assay.ScopeAgent) {
		return assay.Errorf(assay.CodeForbidden, "Repositories need a session with the scope agent.")
	}
	call := &assay.AgentCall{
		Operation: operation, Caller: q.session.Principal(), TraceID: requestid.FromContext(q.ctx),
		Method: method, Path: path, Query: query.Encode(), Header: map[string][]string{"Accept": {"application/json"}},
	}
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		call.Body, call.Header["Content-Type"] = encoded, []string{"application/json"}
	}
	result, err := q.cfg.Agent.Forward(q.ctx, call)
	if err != nil || answer == nil {
		return err
	}
	leave, err := q.cfg.CPU.Enter(q.ctx, q.organization())
	if err != nil {
		return err
	}
	defer leave()
	if err := json.Unmarshal(result.Data, answer); err != nil {
		return &assay.Error{Code: assay.CodeUpstream, Message: "the agent's answer has another shape", Err: err}
	}
	return nil
}

// hasAgent reports whether the session can see repositories.
func (q *request) hasAgent() bool {
	return q.cfg.Agent != nil && q.session.Allows(assay.ScopeAgent)
}

// listRepositories returns the installations with their repositories.
func (q *request) listRepositories() ([]agentInstallation, error) {
	var page agentPage[agentInstallation]
	err := q.callAgent("list-repositories", http.MethodGet, "/repositories", nil, nil, &page)
	return page.Data, err
}

// agentImpact returns the impact whose glyph and color pages use for a severity.
func agentImpact(severity string) assay.Impact {
	switch severity {
	case "critical":
		return assay.ImpactCritical
	case "high":
		return assay.ImpactImportant
	case "medium":
		return assay.ImpactNormal
	}
	return assay.ImpactLow
}
