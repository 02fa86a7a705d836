// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/codebase/source"
	"assay/internal/fair"
)

const unknownID = "0e6d6048-a35c-49f0-adbf-c3e293fafd2c"

// review stores the result of a review, as a worker does.
func (w *world) review(t *testing.T, organization, repositoryID string, findings ...*assay.CodeFinding) *assay.Run {
	t.Helper()
	ctx := t.Context()
	repo, err := w.store.Repository(ctx, organization, repositoryID)
	require.NoError(t, err)
	_, _, err = w.store.ScheduleRun(ctx, &assay.Run{
		OrganizationID: organization, RepositoryID: repositoryID, InstallationID: repo.InstallationID, RepositoryName: repo.FullName,
		Type: assay.RunReview, Status: assay.RunPending, Trigger: assay.TriggerManual,
	})
	require.NoError(t, err)
	r, err := w.store.ClaimRun(ctx, "worker", 10*time.Second)
	require.NoError(t, err)
	require.Equal(t, repositoryID, r.RepositoryID)
	now := w.clock.Now()
	r.Commit, r.Phase = strings.Repeat("a", 40), "report"
	for _, key := range []string{"checkout", "scan", "correlate", "report"} {
		r.PhaseTimes = append(r.PhaseTimes, assay.RunPhase{Key: key, Started: now, Ended: now})
		require.NoError(t, w.store.UpdateRun(ctx, "worker", r, []assay.RunEvent{
			{Name: "phase", Message: key + " started", Phase: key, Transition: "started"}, {Name: "phase", Message: key, Phase: key, Transition: "completed"},
		}))
	}
	repo.ReviewedCommit, repo.DefaultBranch, repo.Access = r.Commit, "main", "granted"
	repo.Instrumentation = json.RawMessage(`{"otel_present":true,"signals":["traces"],"detected_sdks":[],"instrumentation_types":[],"languages":["go"],"services":[],"summary_text":"x"}`)
	for _, f := range findings {
		f.OrganizationID, f.RepositoryID, f.RunID = organization, repositoryID, r.ID
	}
	require.NoError(t, w.store.SaveReview(ctx, "worker", r, repo, findings))
	r.Status, r.EndedAt, r.Result = assay.RunCompleted, now, json.RawMessage(`{"finding_count":1,"branch":"main","commit_sha":"a","pull_request_url":null,"patch_url":null,"verification":null}`)
	require.NoError(t, w.store.UpdateRun(ctx, "worker", r, nil))
	return r
}

func newFinding(n int, severity, category string) *assay.CodeFinding {
	return &assay.CodeFinding{
		ID: fmt.Sprintf("otel-%012x", n), Check: "span-name-dynamic", Severity: severity, Category: category,
		Body: json.RawMessage(`{"rules":["SPA-003"],"title":"Span name is built from variables","display_title":"Span name: x","summary":"s","why":"w","fix":"f","fixable":true,` +
			`"locations":[{"file":"a.go","line":3,"description":"d","excerpt":{"start_line":3,"lines":["x"],"mark":0,"mark_end":1}}]}`),
	}
}

// TestStatuses has every operation answer with every status that it has.
func TestStatuses(t *testing.T) {
	w := newWorld(t, Config{RepositoryLimit: 2, SessionsPerMinute: 2})
	user, key := w.as(w.acme, credentialUser), w.as(w.acme, credentialKey)
	stranger := w.as(w.other, credentialUser)
	active := user.activate("https://example.com/acme/shop")
	inactive := user.connect("https://example.com/acme/idle")
	foreign := stranger.activate("https://example.com/other/shop")
	run := w.review(t, w.acme, active, newFinding(1, "high", "Volume"))
	finding := "otel-000000000001"
	installation := get[page[installationData]](user, "GET /repositories", "").Data[0].ID
	big := `{"x":"` + strings.Repeat("a", maxBody) + `"}`
	body := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }
	on, off := body(`{"repo_id":%q}`, active), body(`{"repo_id":%q}`, inactive)

	covered := map[string]bool{}
	for _, c := range []struct {
		as     *client
		target string // the pattern of an operation, with {} for an id
		ids    string // separated by commas
		query  string
		body   string
		status int
		detail string // that is explained
	}{
		{user, "GET /admin/installations", "", "", "", 200, ""},
		{key, "GET /admin/installations", "", "", "", 403, ""},
		{user, "GET /admin/installations", "", "a=1;b=2&c=%zz&%zz=d", "", 200, ""},

		{user, "POST /codebase/partner/migrate/execute", "", "", on, 200, ""},
		{key, "POST /codebase/partner/migrate/execute", "", "", on, 200, ""},
		{key, "POST /codebase/partner/migrate/execute", "", "", "", 422, "repo_id"},
		{stranger, "POST /codebase/partner/migrate/execute", "", "", "", 403, ""},

		{key, "GET /codebase/findings", "", "", "", 200, ""},
		{key, "GET /codebase/findings", "", "executionId=" + run.ID + "&status=all", "", 200, ""},
		{key, "GET /codebase/findings", "", "executionId=" + unknownID, "", 200, ""},
		{key, "GET /codebase/findings", "", "executionId=nobody", "", 400, "executionId"},
		{key, "GET /codebase/findings", "", "repositoryId=" + active + "&findingId=" + finding, "", 200, ""},
		{key, "GET /codebase/findings", "", "findingId=nobody", "", 400, "findingId"},
		{key, "GET /codebase/findings", "", "status=open", "", 400, "status"},
		{key, "GET /codebase/findings", "", "status=all&status=all", "", 400, "status"},

		{key, "POST /codebase/fix/execute", "", "", body(`{"repo_id":%q,"finding_ids":[%q],"issue_number":3}`, active, finding), 200, ""},
		{key, "POST /codebase/fix/execute", "", "", on, 422, "finding_ids"},
		{key, "POST /codebase/fix/execute", "", "", body(`{"repo_id":%q,"finding_ids":[%q],"publish":false}`, active, finding), 200, ""},
		{key, "POST /codebase/fix/execute", "", "", body(`{"repo_id":%q,"finding_ids":[%q],"publish":"no"}`, active, finding), 422, "publish"},
		{key, "POST /codebase/fix/execute", "", "", body(`{"repo_id":%q,"finding_ids":[]}`, active), 422, "finding_ids"},
		{key, "POST /codebase/fix/execute", "", "", body(`{"repo_id":%q,"finding_ids":["otel-00000000000f"]}`, active), 422, "finding_ids"},
		{key, "POST /codebase/fix/execute", "", "", body(`{"repo_id":%q,"finding_ids":["x"]}`, active), 422, "finding_ids"},
		{key, "POST /codebase/fix/execute", "", "", body(`{"repo_id":%q,"finding_ids":"x"}`, active), 422, "finding_ids"},
		{key, "POST /codebase/fix/execute", "", "", body(`{"repo_id":%q,"finding_ids":[%q],"issue_number":0}`, active, finding), 422, "issue_number"},
		{key, "POST /codebase/fix/execute", "", "", body(`{"repo_id":%q,"finding_ids":[%q],"issue_number":"1"}`, active, finding), 422, "issue_number"},
		{key, "POST /codebase/fix/execute", "", "", body(`{"repo_id":%q,"finding_ids":[%q`+strings.Repeat(`,"otel-000000000001"`, 10)+`]}`, active, finding), 422, "finding_ids"},
		{key, "POST /codebase/instrumentation/execute", "", "", body(`{"repo_id":%q,"type":"minimum"}`, active), 200, ""},
		{key, "POST /codebase/instrumentation/execute", "", "", body(`{"repo_id":%q,"type":"all"}`, active), 422, "type"},
		{key, "POST /codebase/instrumentation/execute", "", "", on, 422, "type"},
		{key, "POST /codebase/review/execute", "", "", " " + on + " ", 200, ""},
		{key, "POST /codebase/review/execute", "", "", "", 422, "repo_id"},
		{key, "POST /codebase/review/execute", "", "", `{"repo_id":"nothing"}`, 404, ""},
		{key, "POST /codebase/review/execute", "", "", body(`{"repo_id":%q}`, foreign), 404, ""},
		{key, "POST /codebase/review/execute", "", "", off, 409, ""},
		{key, "POST /codebase/review/execute", "", "", `{"repo_id":null}`, 422, "repo_id"},
		{key, "POST /codebase/review/execute", "", "", `{"repo_id":"x","branch":"y"}`, 422, "branch"},
		{key, "POST /codebase/review/execute", "", "", `[]`, 400, "body"},
		{key, "POST /codebase/review/execute", "", "", `{`, 400, "body"},
		{key, "POST /codebase/review/execute", "", "", big, 413, ""},

		{key, "GET /executions", "", "status=completed&executionType=review,fix&repositoryId=" + active, "", 200, ""},
		{key, "GET /executions", "", "limit=101", "", 400, "limit"},
		{key, "GET /executions", "", "limit=x", "", 400, "limit"},
		{key, "GET /executions", "", "limit=%zz", "", 400, "limit"},
		{key, "GET /executions", "", "offset=9007199254740991", "", 200, ""},
		{key, "GET /executions", "", "offset=-1", "", 400, "offset"},
		{key, "GET /executions", "", "status=queued", "", 400, "status"},
		{key, "GET /executions", "", "executionType=review,other", "", 400, "executionType"},
		{key, "GET /executions", "", "repositoryId=x", "", 400, "repositoryId"},
		{key, "GET /executions/{}", run.ID, "", "", 200, ""},
		{key, "GET /executions/{}", "none", "", "", 404, ""},
		{key, "GET /executions/{}", unknownID, "", "", 404, ""},
		{stranger, "GET /executions/{}", run.ID, "", "", 404, ""},
		{key, "GET /executions/{}/agent-events", run.ID, "afterSeq=-1&limit=500", "", 200, ""},
		{key, "GET /executions/{}/agent-events", run.ID, "afterSeq=9007199254740991", "", 200, ""},
		{key, "GET /executions/{}/agent-events", run.ID, "afterSeq=-2", "", 400, "afterSeq"},
		{key, "GET /executions/{}/agent-events", run.ID, "limit=501", "", 400, "limit"},
		{stranger, "GET /executions/{}/agent-events", run.ID, "", "", 404, ""},
		{key, "GET /executions/{}/patch", run.ID, "", "", 404, ""},
		{key, "GET /executions/{}/patch", "x", "", "", 404, ""},
		{key, "POST /executions/{}/cancel", run.ID, "", "", 200, ""},
		{key, "POST /executions/{}/cancel", run.ID, "", `{"x":1}`, 422, "x"},
		{stranger, "POST /executions/{}/cancel", run.ID, "", "", 404, ""},

		{key, "GET /findings", "", "severity=critical,high&category=Sensitive%20Data,Volume&page=2&page_size=100", "", 200, ""},
		{key, "GET /findings", "", "severity=worst", "", 400, "severity"},
		{key, "GET /findings", "", "category=x", "", 400, "category"},
		{key, "GET /findings", "", "page=0", "", 400, "page"},
		{key, "GET /findings", "", "page=90071992547409&page_size=100", "", 200, ""},
		{key, "GET /findings", "", "page_size=101", "", 400, "page_size"},
		{key, "GET /findings/summary", "", "", "", 200, ""},

		{key, "POST /onboarding/session", "", "", "", 403, ""},
		{user, "POST /onboarding/session", "", "", `{"x":1}`, 422, "x"},
		{user, "POST /onboarding/session", "", "", "{}", 200, ""},
		{user, "POST /onboarding/session", "", "", "", 200, ""},
		{user, "POST /onboarding/session", "", "", "", 429, ""},
		{stranger, "POST /onboarding/session", "", "", "", 200, ""},
		{key, "GET /onboarding/status", "", "", "", 403, ""},
		{user, "GET /onboarding/status", "", "", "", 200, ""},
		{key, "POST /onboarding/repos", "", "", "", 403, ""},
		{user, "POST /onboarding/repos", "", "", "", 400, "repository_ids"},
		{user, "POST /onboarding/repos", "", "", `{"repository_ids":[]}`, 400, "repository_ids"},
		{user, "POST /onboarding/repos", "", "", `{"repository_ids":["x"]}`, 400, "repository_ids"},
		{user, "POST /onboarding/repos", "", "", `{"repository_ids":"x"}`, 400, "repository_ids"},
		{user, "POST /onboarding/repos", "", "", body(`{"repository_ids":[%q,%q]}`, active, foreign), 400, "repository_ids"},
		{user, "POST /onboarding/repos", "", "", body(`{"repository_ids":[%q,%q]}`, active, active), 200, ""},
		{user, "POST /onboarding/repos", "", "", body(`{"repository_ids":[%q]}`, active), 409, ""},

		{key, "GET /repositories", "", "", "", 200, ""},
		{key, "GET /repositories/{}", active, "", "", 200, ""},
		{key, "GET /repositories/{}", strings.ToUpper(active), "", "", 200, ""},
		{key, "GET /repositories/{}", "x", "", "", 404, ""},
		{key, "GET /repositories/{}", foreign, "", "", 404, ""},
		{key, "PATCH /repositories/{}", inactive, "", `{"is_active":true}`, 200, ""},
		{key, "PATCH /repositories/{}", inactive, "", `{"is_active":false}`, 200, ""},
		{key, "PATCH /repositories/{}", inactive, "", ``, 400, "body"},
		{key, "PATCH /repositories/{}", inactive, "", `{}`, 422, "is_active"},
		{key, "PATCH /repositories/{}", inactive, "", `{"is_active":"yes"}`, 422, "is_active"},
		{key, "PATCH /repositories/{}", inactive, "", `{"is_active":true,"x":1}`, 422, "x"},
		{key, "PATCH /repositories/{}", foreign, "", `{"is_active":true}`, 404, ""},
		{key, "PATCH /repositories/{}", inactive, "", big, 413, ""},
		{key, "GET /repositories/{}/settings", active, "", "", 403, ""},
		{user, "GET /repositories/{}/settings", active, "", "", 200, ""},
		{user, "GET /repositories/{}/settings", foreign, "", "", 404, ""},
		{key, "PUT /repositories/{}/settings", active, "", "{}", 403, ""},
		{user, "PUT /repositories/{}/settings", active, "", `{"ignore":["vendor/**"],"disabled_checks":["span-noise"],"services":["shop"],"review_instructions":"x"}`, 200, ""},
		{user, "PUT /repositories/{}/settings", active, "", `{"ignore":[""]}`, 422, "ignore"},
		{user, "PUT /repositories/{}/settings", active, "", `{"ignore":["vendor","a[b"]}`, 422, "ignore"},
		{user, "PUT /repositories/{}/settings", active, "", `{"ignore":["# generated","a\n!b"]}`, 422, "ignore"},
		{user, "PUT /repositories/{}/settings", active, "", `{"disabled_checks":["span-noise","Span-Noise"]}`, 422, "disabled_checks"},
		{user, "PUT /repositories/{}/settings", active, "", `{"services":[1]}`, 422, "services"},
		{user, "PUT /repositories/{}/settings", active, "", body(`{"fix_instructions":%q}`, strings.Repeat("x", 9000)), 422, "fix_instructions"},
		{user, "PUT /repositories/{}/settings", active, "", body(`{"repository_id":%q}`, inactive), 422, "repository_id"},
		{user, "PUT /repositories/{}/settings", foreign, "", "{}", 404, ""},
		{key, "PATCH /repositories/{}/findings/{}", active + "," + finding, "", `{"dismissed":true,"dismissed_reason":"no"}`, 200, ""},
		{key, "PATCH /repositories/{}/findings/{}", active + "," + finding, "", `{"dismissed":false}`, 200, ""},
		{key, "PATCH /repositories/{}/findings/{}", active + "," + finding, "", `{}`, 422, "dismissed"},
		{key, "PATCH /repositories/{}/findings/{}", active + "," + finding, "", ``, 400, "body"},
		{key, "PATCH /repositories/{}/findings/{}", active + "," + finding, "", body(`{"dismissed":true,"dismissed_reason":%q}`, strings.Repeat("x", 2000)), 422, "dismissed_reason"},
		{key, "PATCH /repositories/{}/findings/{}", active + ",otel-00000000000f", "", `{"dismissed":true}`, 404, ""},
		{key, "PATCH /repositories/{}/findings/{}", active + ",x", "", `{"dismissed":true}`, 404, ""},
		{stranger, "PATCH /repositories/{}/findings/{}", active + "," + finding, "", `{"dismissed":true}`, 404, ""},

		{key, "POST /onboarding/installations", "", "", `{"kind":"git","url":"x"}`, 422, "url"},
		{key, "POST /onboarding/installations", "", "", `{"kind":"git","url":"https://example.com/a/b"}`, 200, ""},
		{key, "POST /onboarding/installations", "", "", `{"kind":1}`, 422, "kind"},
		{key, "POST /onboarding/installations", "", "", `{"kind":"git","url":"https://example.com/a/b","write":true}`, 422, "write"},
		{key, "POST /onboarding/installations", "", "", `{"kind":"local","url":"/x","write":true}`, 422, "write"},
		{key, "POST /onboarding/installations", "", "", `{"kind":"git","url":"https://example.com/a/b","token":"t","write":1}`, 422, "write"},
		{stranger, "DELETE /onboarding/installations/{}", installation, "", "", 404, ""},
		{key, "DELETE /onboarding/installations/{}", "x", "", "", 404, ""},
		{key, "DELETE /onboarding/installations/{}", installation, "", "", 200, ""},
	} {
		method, path, _ := strings.Cut(c.target, " ")
		for id := range strings.SplitSeq(c.ids, ",") {
			path = strings.Replace(path, "{}", id, 1)
		}
		if c.query != "" {
			path += "?" + c.query
		}
		a := c.as.do(method+" "+path, c.body)
		require.Equal(t, c.status, a.status, "%s %s: %+v", c.target, c.body, a.Error)
		if c.detail != "" {
			require.Contains(t, a.Error.Details, c.detail, c.target)
		}
		if c.status == 429 {
			require.NotEmpty(t, a.header.Get("Retry-After"))
		}
		covered[c.target] = true
	}
	for _, op := range operations {
		require.True(t, covered[op.method+" "+op.path], op.path)
		if op.method == "GET" {
			require.Equal(t, op.usersOnly, slices.Contains([]string{"/admin/installations", "/onboarding/status", "/repositories/{}/settings"}, op.path))
		}
	}
	for target, status := range map[string]int{
		"GET /": 404, "GET /findings/": 404, "GET /nothing": 404, "DELETE /findings": 405, "POST /repositories": 405, "GET /codebase/fix/execute": 405,
	} {
		require.Equal(t, status, user.do(target, "").status, target)
	}
}

// keysOf returns the names of an object's members.
func keysOf(t *testing.T, text json.RawMessage) []string {
	t.Helper()
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &members), string(text))
	return slices.Sorted(maps.Keys(members))
}

func names(s string) []string { return slices.Sorted(slices.Values(strings.Fields(s))) }

// TestFixRuns shows a fix from its request to its patch.
func TestFixRuns(t *testing.T) {
	w := newWorld(t, Config{PublicURL: "https://assay.example.com/api/v1/agent"})
	c := w.as(w.acme, credentialUser)
	id := c.activate("https://example.com/acme/shop")
	w.review(t, w.acme, id, newFinding(1, "high", "Volume"), newFinding(2, "low", "Governance"))
	statuses := func() (all []string) {
		for _, f := range get[page[findingData]](c, "GET /findings", "").Data {
			text := "none"
			if f.FixStatus != nil {
				text = *f.FixStatus
			}
			all = append(all, text)
		}
		return all
	}
	require.Equal(t, []string{"none", "none"}, statuses())
	body := fmt.Sprintf(`{"repo_id":%q,"finding_ids":["otel-000000000001"]}`, id)
	made := get[scheduled](c, "POST /codebase/fix/execute", body)
	require.Equal(t, []string{"in_progress", "none"}, statuses())

	ctx := t.Context()
	r, err := w.store.ClaimRun(ctx, "worker", 10*time.Second)
	require.NoError(t, err)
	require.Equal(t, made.ExecutionID, r.ID)
	require.Equal(t, []string{"in_progress", "none"}, statuses())
	require.NoError(t, w.store.SavePatch(ctx, "worker", r.ID, []byte("--- a/x\n+++ b/x\n")))
	require.NoError(t, w.store.SaveFix(ctx, "worker", r.ID, []string{"otel-000000000001"}, assay.CodeFix{FixStatus: assay.FixProposed, PullRequest: 7, PullStatus: assay.PullOpen}))
	r.Status, r.Result = assay.RunCompleted, json.RawMessage(`{"finding_count":1,"branch":"assay/fix-1","commit_sha":"b","pull_request_url":"https://example.com/7","patch_url":null,"verification":{"status":"verified"}}`)
	require.NoError(t, w.store.UpdateRun(ctx, "worker", r, nil))
	require.Equal(t, []string{"proposed", "none"}, statuses())

	var result struct {
		PatchURL     string `json:"patch_url"`
		Verification struct{ Status string }
	}
	require.NoError(t, json.Unmarshal(get[runDetail](c, "GET /executions/"+r.ID, "").Result, &result))
	require.Equal(t, "verified", result.Verification.Status)
	at, ok := strings.CutSuffix(result.PatchURL, "/executions/"+r.ID+"/patch")
	require.True(t, ok, result.PatchURL)
	require.Equal(t, "https://assay.example.com/api/v1/agent", at)
	require.Equal(t, patchData{Format: "git", Patch: "--- a/x\n+++ b/x\n"}, get[patchData](c, "GET /executions/"+r.ID+"/patch", ""))
	require.Equal(t, http.StatusNotFound, w.as(w.other, credentialUser).do("GET /executions/"+r.ID+"/patch", "").status)

	// A patch of text that is not UTF-8 arrives unchanged.
	get[scheduled](c, "POST /codebase/fix/execute", body)
	r, err = w.store.ClaimRun(ctx, "worker", 10*time.Second)
	require.NoError(t, err)
	require.NoError(t, w.store.SavePatch(ctx, "worker", r.ID, []byte("caf\xe9")))
	require.Equal(t, patchData{Format: "git", Patch: "Y2Fm6Q==", Encoding: "base64"}, get[patchData](c, "GET /executions/"+r.ID+"/patch", ""))
}

// TestShapes compares the members of every resource with the design.
func TestShapes(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.as(w.acme, credentialUser)
	id := c.activate("https://example.com/acme/shop")
	run := w.review(t, w.acme, id, newFinding(1, "high", "Volume"), newFinding(2, "low", "Governance"))

	type list = page[json.RawMessage]
	installations := get[list](c, "GET /repositories", "")
	require.Equal(t, pagination{Limit: assay.MaxInstallations, Total: 1}, installations.Pagination)
	require.Equal(t, names("id vcs_provider provider_installation_status account active_repo_count repos"), keysOf(t, installations.Data[0]))
	repository := names("id repo_full_name repo_url default_branch is_active vcs_provider repository_access_status last_scanned_at last_scanned_commit_sha dashboard_issue_number active_findings_count finding_counts")
	var nested struct{ Repos []json.RawMessage }
	require.NoError(t, json.Unmarshal(installations.Data[0], &nested))
	require.Equal(t, repository, keysOf(t, nested.Repos[0]))
	require.Equal(t, names("id vcs_provider provider_installation_status account active_repo_count repos created_at created_by last_error"),
		keysOf(t, get[list](c, "GET /admin/installations", "").Data[0]))

	detail := get[map[string]json.RawMessage](c, "GET /repositories/"+id, "")
	require.Equal(t, names("repository instrumentation_metadata findings"), slices.Sorted(maps.Keys(detail)))
	require.Equal(t, repository, keysOf(t, detail["repository"]))
	require.JSONEq(t, `{"critical":0,"high":1,"medium":0,"low":1,"suggestion":0}`, string(get[struct {
		Repository struct {
			Counts json.RawMessage `json:"finding_counts"`
		}
	}](c, "GET /repositories/"+id, "").Repository.Counts))
	require.Equal(t, names("otel_present signals detected_sdks instrumentation_types languages services summary_text"), keysOf(t, detail["instrumentation_metadata"]))
	before := get[map[string]json.RawMessage](c, "GET /repositories/"+c.connect("https://example.com/acme/new"), "")
	require.Equal(t, "null", string(before["instrumentation_metadata"]))
	require.Equal(t, "[]", string(before["findings"]))
	finding := names("finding_id repository_id repo_full_name repo_url execution_id check rules insight_ids severity category title display_title summary why fix fixable locations status checked fix_status fix_note pr_number pr_status dismissed dismissed_reason created_at resolved_at")
	var findings []json.RawMessage
	require.NoError(t, json.Unmarshal(detail["findings"], &findings))
	require.Len(t, findings, 2)
	require.Equal(t, finding, keysOf(t, findings[0]))

	for _, path := range []string{"/findings?page_size=1", "/codebase/findings?limit=1&executionId=" + run.ID} {
		found := get[list](c, "GET "+path, "")
		require.Equal(t, finding, keysOf(t, found.Data[0]))
		require.Equal(t, pagination{Limit: 1, Total: 2, HasMore: true}, found.Pagination)
	}
	second := get[page[findingData]](c, "GET /findings?page_size=1&page=2", "")
	require.Equal(t, pagination{Limit: 1, Offset: 1, Total: 2}, second.Pagination)
	require.Equal(t, "low", second.Data[0].Severity)
	require.Equal(t, "acme/shop", second.Data[0].FullName)
	require.JSONEq(t, `{"total":2,"by_severity":[{"severity":"critical","count":0},{"severity":"high","count":1},{"severity":"medium","count":0},{"severity":"low","count":1},{"severity":"suggestion","count":0}],`+
		`"by_category":[{"category":"Sensitive Data","count":0},{"category":"Volume","count":1},{"category":"Coverage & Correctness","count":0},{"category":"Governance","count":1}]}`,
		string(get[json.RawMessage](c, "GET /findings/summary", "")))

	require.Equal(t, names("id is_active active_repo_count repo_limit"), keysOf(t, get[json.RawMessage](c, "PATCH /repositories/"+id, `{"is_active":true}`)))
	require.Equal(t, names("repository_id review_instructions fix_instructions ignore disabled_checks services test_command"), keysOf(t, get[json.RawMessage](c, "GET /repositories/"+id+"/settings", "")))
	saved := get[settingsData](c, "PUT /repositories/"+id+"/settings", `{"ignore":["a"]}`)
	require.Equal(t, saved, get[settingsData](c, "GET /repositories/"+id+"/settings", ""))

	made := get[scheduled](c, "POST /codebase/review/execute", fmt.Sprintf(`{"repo_id":%q}`, id))
	require.Equal(t, "scheduled", made.Status)
	again := get[scheduled](c, "POST /codebase/review/execute", fmt.Sprintf(`{"repo_id":%q}`, id))
	require.Equal(t, "already_pending", again.Status)
	require.Equal(t, made.ExecutionID, again.ExecutionID)
	executions := get[list](c, "GET /executions?limit=1", "")
	execution := names("id executionType status triggerSource ref commitSha startedAt completedAt repositoryId installationId repoOwner repoName currentPhase createdAt error")
	require.Equal(t, execution, keysOf(t, executions.Data[0]))
	require.Equal(t, pagination{Limit: 1, Total: 2, HasMore: true}, executions.Pagination)
	require.Equal(t, "cancelled", get[runData](c, "POST /executions/"+made.ExecutionID+"/cancel", "").Status)

	shown := get[map[string]json.RawMessage](c, "GET /executions/"+run.ID, "")
	require.Equal(t, names("execution currentPhase phases events running lastSeenAt activity result"), slices.Sorted(maps.Keys(shown)))
	require.Equal(t, execution, keysOf(t, shown["execution"]))
	require.Equal(t, names("finding_count branch commit_sha pull_request_url patch_url verification"), keysOf(t, shown["result"]))
	d := get[runDetail](c, "GET /executions/"+run.ID, "")
	require.Equal(t, "acme", d.Execution.Owner)
	require.Equal(t, "shop", d.Execution.Name)
	require.False(t, d.Running)
	require.Len(t, d.Phases, 4)
	for i, p := range d.Phases {
		require.Equal(t, i+1, p.Order)
		require.Equal(t, "completed", p.State)
	}
	require.Len(t, d.Events, 8)
	var raw struct{ Phases, Events []json.RawMessage }
	require.NoError(t, json.Unmarshal(get[json.RawMessage](c, "GET /executions/"+run.ID, ""), &raw))
	require.Equal(t, names("id key label order state startedAt completedAt"), keysOf(t, raw.Phases[0]))
	require.Equal(t, names("createdAt eventName message phaseKey transition"), keysOf(t, raw.Events[0]))
	require.Equal(t, []phaseData{}, nonNil(slices.DeleteFunc(get[runDetail](c, "GET /executions/"+made.ExecutionID, "").Phases, func(p phaseData) bool { return p.State == "skipped" })))

	events := get[map[string]json.RawMessage](c, "GET /executions/"+run.ID+"/agent-events", "")
	require.Equal(t, names("sessions events latestSeq"), slices.Sorted(maps.Keys(events)))
	var sessions, timeline []json.RawMessage
	require.NoError(t, json.Unmarshal(events["sessions"], &sessions))
	require.NoError(t, json.Unmarshal(events["events"], &timeline))
	require.Equal(t, names("id runtimeSessionId name createdAt usage"), keysOf(t, sessions[0]))
	require.Equal(t, names("seq createdAt agentSessionId payload"), keysOf(t, timeline[0]))
	require.Equal(t, "7", string(events["latestSeq"]))
	require.Len(t, timeline, 8)
	part := get[eventsData](c, "GET /executions/"+run.ID+"/agent-events?afterSeq=2&limit=2", "")
	require.Equal(t, []int64{3, 4}, []int64{part.Events[0].Seq, part.Events[1].Seq})
	require.Empty(t, get[eventsData](c, "GET /executions/"+run.ID+"/agent-events?afterSeq=7", "").Events)

	require.Equal(t, names("session_id installation_url expires_at"), keysOf(t, get[json.RawMessage](c, "POST /onboarding/session", "")))
	require.JSONEq(t, `{"state":"in_progress","installation_count":1,"kinds":["git","local"],"repositories":{"total":2,"active":1,"limit":100}}`, string(get[json.RawMessage](c, "GET /onboarding/status", "")))
	other := w.as(w.other, credentialUser)
	require.JSONEq(t, `{"state":"not_started","installation_count":0,"kinds":["git","local"],"repositories":{"total":0,"active":0,"limit":100}}`, string(get[json.RawMessage](other, "GET /onboarding/status", "")))
	require.JSONEq(t, `{"data":[],"pagination":{"limit":100,"offset":0,"total":0,"hasMore":false}}`, string(get[json.RawMessage](other, "GET /repositories", "")))
}

// TestRepositoryLimit activates repositories up to the limit, and not beyond it.
func TestRepositoryLimit(t *testing.T) {
	w := newWorld(t, Config{RepositoryLimit: 2})
	c := w.as(w.acme, credentialUser)
	one, two, three := c.connect("https://example.com/acme/1"), c.connect("https://example.com/acme/2"), c.connect("https://example.com/acme/3")
	refused := c.do("POST /onboarding/repos", fmt.Sprintf(`{"repository_ids":[%q,%q,%q]}`, one, two, three))
	require.Equal(t, http.StatusConflict, refused.status)
	require.Equal(t, string(assay.CodeConflict), refused.Error.Code)
	require.Equal(t, "in_progress", get[onboardingData](c, "GET /onboarding/status", "").State)
	require.Zero(t, get[onboardingData](c, "GET /onboarding/status", "").Repositories.Active, "none of them")
	done := get[onboardingData](c, "POST /onboarding/repos", fmt.Sprintf(`{"repository_ids":[%q,%q]}`, one, two))
	require.Equal(t, onboardingData{State: "completed", Installations: 1, Kinds: []string{"git", "local"}, Repositories: repositoryCounts{3, 2, 2}}, done)
	over := c.do("PATCH /repositories/"+three, `{"is_active":true}`)
	require.Equal(t, http.StatusConflict, over.status)
	require.Equal(t, string(assay.CodeConflict), over.Error.Code)
	require.Equal(t, map[string]string{"limit": "2"}, over.Error.Details)
	require.Equal(t, activation{two, false, 1, 2}, get[activation](c, "PATCH /repositories/"+two, `{"is_active":false}`))
	require.Equal(t, activation{three, true, 2, 2}, get[activation](c, "PATCH /repositories/"+three, `{"is_active":true}`))
}

// TestInstallations: repositories of one owner with one credential share an installation, and a repository that is
// connected again gets the new credential. Credentials are sealed and appear nowhere.
func TestInstallations(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.as(w.acme, credentialUser)
	connect := func(url, token string) connected {
		return get[connected](c, "POST /onboarding/installations", fmt.Sprintf(`{"kind":"git","url":%q,"token":%q}`, url, token))
	}
	first := connect("https://example.com/acme/1", "token-one")
	require.Equal(t, first.Installation.ID, connect("https://example.com/acme/2", "token-one").Installation.ID)
	require.NotEqual(t, first.Installation.ID, connect("https://example.com/acme/3", "token-two").Installation.ID)
	require.NotEqual(t, first.Installation.ID, connect("https://example.com/other/1", "token-one").Installation.ID)
	again := connect("https://example.com/acme/1", "token-three")
	require.Equal(t, first.Installation.ID, again.Installation.ID)
	require.Equal(t, first.Repositories[0].ID, again.Repositories[0].ID)
	require.Len(t, again.Installation.Repos, 2)
	stored, err := w.store.Installations(t.Context(), w.acme)
	require.NoError(t, err)
	require.Len(t, stored, 3)
	require.NotContains(t, string(stored[0].Credential), "token")
	credential, err := w.sources.Open(stored[0])
	require.NoError(t, err)
	require.Equal(t, source.Credential{Token: "token-three"}, credential)
	require.Equal(t, "somebody", stored[0].CreatedBy)
	all := c.do("GET /admin/installations", "")
	require.NotContains(t, string(all.Data), "token-")
	require.NotContains(t, w.log.String(), "token-")
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", credential, credential, &source.Request{Credential: credential}), "token-three")
}

// TestConditional answers 304 while nothing changes.
func TestConditional(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.as(w.acme, credentialUser)
	id := c.connect("https://example.com/acme/shop")
	first := c.do("GET /repositories", "")
	c.header = http.Header{"If-None-Match": {first.header.Get("ETag")}}
	w.clock.move(time.Second)
	require.Equal(t, 304, c.do("GET /repositories", "").status)
	require.Equal(t, 200, c.do("GET /findings/summary", "").status)
	c.header = nil
	get[activation](c, "PATCH /repositories/"+id, `{"is_active":true}`)
	c.header = http.Header{"If-None-Match": {first.header.Get("ETag")}}
	require.Equal(t, 200, c.do("GET /repositories", "").status)
}

// TestSessionLimit counts the sessions of a minute, of each organization alone, and forgets them.
func TestSessionLimit(t *testing.T) {
	var l sessionLimit
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	for n := range 5 {
		require.Zero(t, l.take("a", 5, now.Add(time.Duration(n)*time.Second)))
	}
	require.Equal(t, 55*time.Second, l.take("a", 5, now.Add(5*time.Second)))
	require.Zero(t, l.take("b", 5, now.Add(5*time.Second)))
	require.Zero(t, l.take("a", 5, now.Add(time.Minute)))
	require.Positive(t, l.take("a", 5, now.Add(time.Minute)))
	for n := range maxSessionOwners + 10 {
		l.take(fmt.Sprint(n), 5, now.Add(time.Minute))
	}
	require.LessOrEqual(t, len(l.recent), maxSessionOwners)
	require.Zero(t, l.take("new", 5, now.Add(time.Hour)))
	require.Len(t, l.recent, 1)
}

// TestEncodingTakesTurns: an answer is encoded while its organization holds a slot of the CPUs.
func TestEncodingTakesTurns(t *testing.T) {
	cpu := fair.NewSemaphore(2, 1)
	w := newWorld(t, Config{CPU: cpu})
	get := func(ctx context.Context, organization string) int {
		r := httptest.NewRequestWithContext(ctx, "GET", "/repositories", nil)
		r.Header.Set("Authorization", "Bearer "+w.signer.sign(t, w.claims(organization, credentialUser)))
		return w.serve(r).status
	}
	require.Equal(t, http.StatusOK, get(t.Context(), w.acme))
	require.NoError(t, cpu.Acquire(t.Context(), w.acme))
	ending, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Equal(t, http.StatusServiceUnavailable, get(ending, w.acme), "it waits until the request ends")
	require.Equal(t, http.StatusOK, get(t.Context(), w.other))
	cpu.Release(w.acme)
	for range 3 {
		require.Equal(t, http.StatusOK, get(t.Context(), w.acme))
	}
}

// TestDecodingTakesTurns: a body is decoded while its organization holds a slot of the CPUs.
func TestDecodingTakesTurns(t *testing.T) {
	cpu := fair.NewSemaphore(2, 1)
	w := newWorld(t, Config{CPU: cpu})
	post := func(ctx context.Context, organization string) int {
		r := httptest.NewRequestWithContext(ctx, "POST", "/codebase/review/execute", strings.NewReader("[]"))
		r.Header.Set("Authorization", "Bearer "+w.signer.sign(t, w.claims(organization, credentialUser)))
		return w.serve(r).status
	}
	require.Equal(t, http.StatusBadRequest, post(t.Context(), w.acme))
	require.NoError(t, cpu.Acquire(t.Context(), w.acme))
	ending, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Equal(t, http.StatusServiceUnavailable, post(ending, w.acme), "it waits until the request ends")
	require.Equal(t, http.StatusBadRequest, post(t.Context(), w.other))
	cpu.Release(w.acme)
	require.Equal(t, http.StatusBadRequest, post(t.Context(), w.acme))
}

// TestLargeAnswers: an organization makes few large answers at a time. Others and small answers do not wait for them.
func TestLargeAnswers(t *testing.T) {
	w := newWorld(t, Config{})
	large := w.handler.(*server).large
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	get := func(organization, path string) int {
		r := httptest.NewRequestWithContext(ended, "GET", path, nil)
		r.Header.Set("Authorization", "Bearer "+w.signer.sign(t, w.claims(organization, credentialUser)))
		return w.serve(r).status
	}
	w.as(w.acme, credentialUser).do("GET /repositories", "") // so that the keys of tokens are known
	for range maxLargeEach {
		require.Equal(t, http.StatusNotFound, get(w.acme, "/executions/none"))
		require.NoError(t, large.Acquire(t.Context(), w.acme))
	}
	for _, path := range []string{"/executions/none", "/repositories/none", "/codebase/findings?limit=none"} {
		require.Equal(t, http.StatusServiceUnavailable, get(w.acme, path), "it waits until the request ends")
	}
	require.Equal(t, http.StatusNotFound, get(w.acme, "/repositories/none/settings"))
	require.Equal(t, http.StatusNotFound, get(w.other, "/executions/none"))
	large.Release(w.acme)
	require.Equal(t, http.StatusNotFound, get(w.acme, "/executions/none"))
}
