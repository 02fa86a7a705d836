// SPDX-License-Identifier: Apache-2.0

package dashboardtest

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"

	"assay"
)

// Ids of a World's repository and run.
const (
	RepositoryID = "5f0a7a52-1d5c-4f39-9d1d-7f4f6a3a9e01"
	RunID        = "5f0a7a52-1d5c-4f39-9d1d-7f4f6a3a9e02"
	FindingID    = "otel-0123456789ab"
	FixID        = "5f0a7a52-1d5c-4f39-9d1d-7f4f6a3a9e03" // a run
)

// Findings implements dashboard.CodeFinder: one finding is behind the first insight.
func (w *World) Findings(_ context.Context, _ string, f assay.FindingFilter) ([]*assay.CodeFinding, int, error) {
	if len(w.Found) == 0 || f.InsightID != w.Found[0].ID {
		return nil, 0, nil
	}
	body := json.RawMessage(`{"display_title":"Attribute holds personal data","locations":[{"file":"internal/order/place.go","line":42}]}`)
	return []*assay.CodeFinding{{ID: FindingID, RepositoryID: RepositoryID, Body: body}}, 1, nil
}

// Forward implements assay.AgentBackend with one repository, its findings and its runs. Calls records calls that
// change something.
func (w *World) Forward(_ context.Context, c *assay.AgentCall) (*assay.AgentAnswer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.AgentErr != nil && (c.Method != http.MethodGet || assay.ErrorCode(w.AgentErr) == assay.CodeUnavailable) {
		return nil, w.AgentErr
	}
	if c.Method != http.MethodGet {
		w.Calls = append(w.Calls, c.Method+" "+c.Path+" "+string(c.Body))
	}
	answer := func(v any) (*assay.AgentAnswer, error) {
		data, err := json.Marshal(v)
		return &assay.AgentAnswer{Data: data}, err
	}
	list := func(items ...any) any {
		return map[string]any{"data": items, "pagination": map[string]any{"limit": 50, "offset": 0, "total": len(items), "hasMore": false}}
	}
	type object = map[string]any
	at := func(ago time.Duration) string { return Now.Add(-ago).Format(time.RFC3339) }
	repository := object{
		"id": RepositoryID, "repo_full_name": "shop/checkout", "repo_url": "https://git.example.com/shop/checkout.git", "default_branch": "main", "is_active": true,
		"vcs_provider": "git", "repository_access_status": "granted", "last_scanned_at": at(3 * time.Hour), "last_scanned_commit_sha": "8f2c3e1a9b7d4f60",
		"active_findings_count": 2, "finding_counts": object{"critical": 1, "high": 1},
	}
	insights := []string{}
	if len(w.Found) > 0 {
		insights = append(insights, w.Found[0].ID)
	}
	findings := []any{
		object{
			"finding_id": FindingID, "repository_id": RepositoryID, "repo_full_name": "shop/checkout", "execution_id": RunID, "check": "sensitive-attribute",
			"rules": []string{"SPA-006"}, "fixable": true, "insight_ids": insights, "severity": "critical", "category": "Sensitive Data", "display_title": "Attribute holds personal data",
			"summary": "The span attribute customer.email holds an e-mail address.", "why": "Every reader of the telemetry sees it.", "fix": "Remove the attribute.",
			"locations": []object{{"file": "internal/order/place.go", "line": 42, "description": "", "excerpt": object{"start_line": 41, "lines": []string{"\tspan.SetAttributes(", "\t\tattribute.String(\"customer.email\", o.Email),", "\t)"}}}},
			"status":    "active", "created_at": at(3 * time.Hour),
		},
		object{
			"finding_id": "otel-ba9876543210", "repository_id": RepositoryID, "repo_full_name": "shop/checkout", "execution_id": RunID, "check": "span-name-dynamic",
			"rules": []string{"SPA-003"}, "severity": "high", "category": "Volume", "display_title": "Span name is built from variables", "summary": "The name holds an id.",
			"locations": []object{{"file": "internal/order/load.go", "line": 7}}, "status": "active", "dismissed": true, "dismissed_reason": "known", "created_at": at(time.Hour),
		},
	}
	unfixable := object{
		"finding_id": "otel-0123456789cd", "repository_id": RepositoryID, "repo_full_name": "shop/checkout", "execution_id": RunID, "check": "span-error-unrecorded",
		"severity": "medium", "category": "Coverage & Correctness", "display_title": "Error path does not record the error", "status": "active", "created_at": at(time.Hour),
	}
	run := object{
		"id": RunID, "executionType": "review", "status": "completed", "triggerSource": "manual", "commitSha": "8f2c3e1a9b7d4f60", "startedAt": at(3 * time.Hour),
		"completedAt": at(3*time.Hour - time.Minute), "repositoryId": RepositoryID, "repoOwner": "shop", "repoName": "checkout", "currentPhase": "report",
	}
	fixed := object{}
	maps.Copy(fixed, run)
	fixed["id"], fixed["executionType"], fixed["currentPhase"] = FixID, "fix", "publish"
	score := func(n float64) *float64 { return &n }
	switch c.Method + " " + strings.ReplaceAll(c.Path, RepositoryID, "{id}") {
	case "GET /repositories":
		return answer(list(object{"id": RunID, "vcs_provider": "git", "provider_installation_status": "active", "account": "git.example.com", "active_repo_count": 1, "repos": []any{repository}}))
	case "GET /repositories/{id}":
		return answer(object{"repository": repository, "findings": []any{findings[0], unfixable}, "instrumentation_metadata": object{
			"otel_present": true, "signals": []string{"traces", "metrics"}, "detected_sdks": []string{"go 1.43.0"}, "languages": []string{"go"},
			"services": []string{"checkout"}, "summary_text": "Traces and metrics by the Go SDK.",
		}})
	case "GET /repositories/{id}/settings":
		return answer(object{"repository_id": RepositoryID, "ignore": []string{"docs/**"}, "disabled_checks": []string{}, "services": []string{"checkout"}})
	case "GET /findings":
		return answer(list(findings[0]))
	case "GET /codebase/findings":
		return answer(list(findings...))
	case "GET /executions":
		return answer(list(fixed, run))
	case "GET /executions/" + RunID:
		return answer(object{
			"execution": run, "running": false, "result": object{"finding_count": 2},
			"phases": []object{{"key": "checkout", "label": "Checkout", "state": "completed"}, {"key": "scan", "label": "Scan", "state": "completed"}},
			"events": []object{{"createdAt": at(3 * time.Hour), "eventName": "phase", "message": "checkout started", "phaseKey": "checkout", "transition": "started"}},
		})
	case "GET /executions/" + FixID:
		return answer(object{
			"execution": fixed, "running": false,
			"result": object{
				"finding_count": 1, "branch": "assay/fix-0a1b2c3d", "pull_request_url": "https://git.example.com/shop/checkout/pulls/7", "patch_url": "https://assay.example.com/patch",
				"fixed_finding_ids": []string{FindingID},
				"steps": []object{
					{"file": "go.mod", "text": "Require `go.opentelemetry.io/otel`"},
					{"file": "go.mod", "text": "Run `go mod tidy`", "open": true},
				},
				"verification": object{
					"status": "verified", "tests": object{"before": object{"passed": true}, "after": object{"passed": w.TestOutput == "", "output": w.TestOutput}},
					"rules":  []object{{"rule_id": "SPA-006", "service": "checkout", "before": "failed", "after": "passed"}},
					"scores": []object{{"service": "checkout", "before": score(61.5), "after": score(88)}, {"service": "new", "before": nil, "after": score(90)}},
					"review": object{"findings_before": 2, "findings_after": 1},
				},
			},
			"phases": []object{{"key": "checkout", "label": "Checkout", "state": "completed"}, {"key": "publish", "label": "Publish", "state": "completed"}},
			"events": []object{{"createdAt": at(3 * time.Hour), "eventName": "phase", "message": "Verification: verified", "phaseKey": "verify", "transition": "completed"}},
		})
	case "GET /executions/" + FixID + "/patch":
		return answer(object{"format": "git", "patch": w.Patch})
	case "POST /codebase/fix/execute", "POST /codebase/instrumentation/execute", "POST /codebase/partner/migrate/execute":
		return answer(object{"status": "scheduled", "executionId": FixID, "message": "The run is scheduled."})
	case "POST /codebase/review/execute":
		return answer(object{"status": "scheduled", "executionId": RunID, "message": "The review is scheduled."})
	case "GET /onboarding/status":
		return answer(object{"state": "in_progress", "installation_count": 1, "kinds": []string{"github", "git", "local"}})
	case "POST /onboarding/session":
		return answer(object{"session_id": RunID, "installation_url": w.InstallationURL, "expires_at": at(-time.Minute)})
	case "POST /onboarding/installations":
		return answer(object{"id": RunID, "repositories": []any{repository}})
	case "PATCH /repositories/{id}", "PUT /repositories/{id}/settings", "PATCH /repositories/{id}/findings/" + FindingID, "PATCH /repositories/{id}/findings/otel-ba9876543210":
		return answer(object{})
	}
	return nil, assay.Errorf(assay.CodeNotFound, "no such resource")
}
