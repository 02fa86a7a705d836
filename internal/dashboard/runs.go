// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"assay"
	"assay/internal/httpreply"
)

const runsPageSize = 50

// runTypes are the names of the types of runs on pages.
var runTypes = map[string]string{
	"review": "Review", "fix": "Fix", "instrumentation": "Instrumentation", "partner-migrate-execute": "Migration",
}

// Title is the title of a run on pages.
func (r agentRun) Title() string {
	if t := runTypes[r.Type]; t != "" {
		return t
	}
	return plain(r.Type)
}

// Repository is the full name of the run's repository.
func (r agentRun) Repository() string {
	if r.Owner == "" {
		return r.Name
	}
	return r.Owner + "/" + r.Name
}

// ShortCommit is the beginning of the commit's id.
func (r agentRun) ShortCommit() string { return r.Commit[:min(len(r.Commit), 12)] }

// runsPage is the list of runs.
type runsPage struct {
	Rows  []agentRun
	Pager pager
}

func (h *Handler) runs(q *request) error {
	a := q.address()
	at := a.slice(runsPageSize)
	query := url.Values{"limit": {strconv.Itoa(at.Limit)}, "offset": {strconv.Itoa(at.Offset)}}
	var found agentPage[agentRun]
	if err := q.callAgent("list-executions", http.MethodGet, "/executions", query, nil, &found); err != nil {
		return err
	}
	page := runsPage{Rows: found.Data}
	if page.Pager = a.pager(runsPageSize, len(found.Data), found.Pagination.Total); page.Pager.beyond() {
		return q.redirect(page.Pager.Previous)
	}
	return q.render(http.StatusOK, "runs", view{Title: "Runs", Section: "code", Live: liveSeconds, Data: page})
}

// runsOf returns the newest runs of a repository.
func (q *request) runsOf(repositoryID string) ([]agentRun, error) {
	query := url.Values{"repositoryId": {repositoryID}, "limit": {strconv.Itoa(shownRuns)}}
	var found agentPage[agentRun]
	err := q.callAgent("list-executions", http.MethodGet, "/executions", query, nil, &found)
	return found.Data, err
}

// runPage is one run.
type runPage struct {
	agentRun
	Phases  []agentPhase
	Events  []agentEvent // newest first
	Result  *agentResult
	Rows    []measured      // of the verification
	Output  []template.HTML // last lines of tests that failed
	Patch   []patchLine     // its beginning
	More    int             // lines of the patch that are not shown
	Open    []agentStep     // tasks that the change leaves to people
	Preview bool            // whose change can be published
	Running bool
}

// measured is something before and after a change.
type measured struct{ Name, Before, After string }

// patchLine is a line of a patch.
type patchLine struct {
	Text  template.HTML
	Class string // added, removed or ""
}

const shownPatchLines = 500

const shownEvents = 200

const shownOutput = 10 // lines

func (h *Handler) run(q *request) error {
	id := q.r.PathValue("id")
	if uuid.Validate(id) != nil {
		return assay.Errorf(assay.CodeNotFound, "no such run")
	}
	var detail struct {
		Execution agentRun     `json:"execution"`
		Phases    []agentPhase `json:"phases"`
		Events    []agentEvent `json:"events"`
		Running   bool         `json:"running"`
		Result    *agentResult `json:"result"`
	}
	if err := q.callAgent("get-execution", http.MethodGet, "/executions/"+id, nil, nil, &detail); err != nil {
		return err
	}
	page := runPage{agentRun: detail.Execution, Phases: detail.Phases, Result: detail.Result, Running: detail.Running}
	page.Events = detail.Events[max(0, len(detail.Events)-shownEvents):]
	slices.Reverse(page.Events)
	if r := page.Result; r != nil && r.Verification != nil {
		page.Rows, page.Output = r.Verification.rows(), r.Verification.output()
		page.Preview = page.Status == "completed" && r.Branch == "" && r.Verification.Status != "rejected" && r.Preview
	}
	if r := page.Result; r != nil {
		for _, s := range r.Steps {
			if s.Open {
				page.Open = append(page.Open, s)
			}
		}
	}
	if page.Result != nil && page.Result.PatchURL != "" {
		patch, err := q.patch(id)
		if err != nil {
			return err
		}
		page.Patch, page.More = patchLines(patch)
	}
	live := liveSeconds
	if page.Running || page.Status == "pending" {
		live = waitingSeconds
	}
	return q.render(http.StatusOK, "run", view{Title: page.Title() + " of " + plain(page.Repository()), Section: "code", Live: live, Data: page})
}

// rows returns the measurements of a verification before and after the change.
func (v *agentVerification) rows() []measured {
	tests := func(t *agentTests) string {
		switch {
		case t == nil:
			return "not run"
		case t.Passed:
			return "pass"
		}
		return "fail"
	}
	score := func(s *float64) string {
		if s == nil {
			return "none"
		}
		return strconv.FormatFloat(*s, 'f', 1, 64)
	}
	rows := []measured{{"Findings of the review", thousands(v.Review.Before), thousands(v.Review.After)}, {"Tests", tests(v.Tests.Before), tests(v.Tests.After)}}
	for _, r := range v.Rules {
		rows = append(rows, measured{r.ID + " of " + r.Service, string(r.Before), string(r.After)})
	}
	for _, s := range v.Scores {
		rows = append(rows, measured{"Score of " + s.Service, score(s.Before), score(s.After)})
	}
	return rows
}

// output returns the last lines that the tests wrote if they failed, after the change or already before it.
func (v *agentVerification) output() []template.HTML {
	failed := v.Tests.Before
	if v.Tests.After != nil {
		failed = v.Tests.After
	}
	if failed == nil || failed.Passed {
		return nil
	}
	var lines []template.HTML
	for text := range strings.Lines(strings.TrimSpace(failed.Output)) {
		lines = append(lines, codeText(text))
	}
	return lines[max(0, len(lines)-shownOutput):]
}

// patch returns the patch of a run.
func (q *request) patch(runID string) (string, error) {
	var found struct {
		Patch    string `json:"patch"`
		Encoding string `json:"encoding"`
	}
	if err := q.callAgent("get-execution-patch", http.MethodGet, "/executions/"+runID+"/patch", nil, nil, &found); err != nil {
		return "", err
	}
	if found.Encoding != "base64" {
		return found.Patch, nil
	}
	text, err := base64.StdEncoding.DecodeString(found.Patch)
	if err != nil {
		return "", &assay.Error{Code: assay.CodeUpstream, Message: "the agent's answer has another shape", Err: err}
	}
	return string(text), nil
}

// patchLines returns the first lines of a patch, and how many there are beyond them.
func patchLines(patch string) (lines []patchLine, more int) {
	for text := range strings.Lines(patch) {
		if len(lines) == shownPatchLines {
			more++
			continue
		}
		line := patchLine{Text: codeText(text)}
		switch {
		case strings.HasPrefix(text, "+++ "), strings.HasPrefix(text, "--- "), strings.HasPrefix(text, "@@ "):
			line.Class = "place"
		case text[0] == '+':
			line.Class = "added"
		case text[0] == '-':
			line.Class = "removed"
		}
		lines = append(lines, line)
	}
	return lines, more
}

// downloadPatch sends the patch of a run as a file.
func (h *Handler) downloadPatch(q *request) error {
	id := q.r.PathValue("id")
	if uuid.Validate(id) != nil {
		return assay.Errorf(assay.CodeNotFound, "no such run")
	}
	patch, err := q.patch(id)
	if err != nil {
		return err
	}
	header := q.w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Disposition", `attachment; filename="assay-`+id+`.patch"`)
	body, _ := httpreply.Compress(q.w, q.r, []byte(patch))
	httpreply.Write(q.w, q.r, http.StatusOK, "text/x-diff; charset=utf-8", body)
	return nil
}

// fix schedules the fix of findings of a repository and shows its run.
func (h *Handler) fix(q *request) error {
	id, err := q.repositoryID()
	if err != nil {
		return err
	}
	if err := q.readForm(); err != nil {
		return err
	}
	body := map[string]any{"repo_id": id, "finding_ids": append([]string{}, q.r.PostForm["finding"]...)}
	return q.schedule(id, "execute-codebase-fix", "/codebase/fix/execute", body)
}

// change schedules an instrumentation or a migration of a repository and shows its run.
func (h *Handler) change(q *request) error {
	id, err := q.repositoryID()
	if err != nil {
		return err
	}
	if err := q.readForm(); err != nil {
		return err
	}
	body := map[string]any{"repo_id": id}
	kind := q.r.PostForm.Get("type")
	if kind == "migration" {
		return q.schedule(id, "execute-partner-migration", "/codebase/partner/migrate/execute", body)
	}
	body["type"] = kind
	return q.schedule(id, "execute-codebase-instrumentation", "/codebase/instrumentation/execute", body)
}

// schedule schedules a run and shows it.
func (q *request) schedule(id, operation, path string, body map[string]any) error {
	if q.r.PostForm.Has("preview") {
		body["publish"] = false
	}
	var scheduled struct {
		ExecutionID string `json:"executionId"`
	}
	err := q.callAgent(operation, http.MethodPost, path, nil, body, &scheduled)
	if err == nil && uuid.Validate(scheduled.ExecutionID) == nil {
		return q.redirect("/runs/" + scheduled.ExecutionID)
	}
	return q.answerForm(id, err, nil)
}
