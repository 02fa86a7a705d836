// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"assay"
)

const findingsPageSize = 50

var findingID = regexp.MustCompile(`^otel-[0-9a-f]{12}$`)

// findingsPage is the list of active findings.
type findingsPage struct {
	Severities, Categories []option
	Rows                   []agentFinding
	Pager                  pager
	Filtered               bool
	Clear                  string
}

// Parameters of the list's address, as the API has them.
const (
	severityParam = "severity"
	categoryParam = "category"
)

// findingCategories are the categories of findings.
var findingCategories = []string{"Sensitive Data", "Volume", "Coverage & Correctness", "Governance"}

func (h *Handler) findings(q *request) error {
	a := q.address()
	page := findingsPage{Clear: a.path}
	query := url.Values{pageParam: {strconv.Itoa(a.page())}, "page_size": {strconv.Itoa(findingsPageSize)}}
	for _, filter := range []struct {
		name    string
		values  []string
		options *[]option
	}{{severityParam, severities, &page.Severities}, {categoryParam, findingCategories, &page.Categories}} {
		chosen := a.all(filter.name)
		for _, v := range chosen {
			if !slices.Contains(filter.values, v) {
				return assay.Errorf(assay.CodeInvalid, "There is no %s of that name.", filter.name)
			}
		}
		for _, v := range filter.values {
			*filter.options = append(*filter.options, option{Value: v, Label: title(v), Chosen: slices.Contains(chosen, v)})
		}
		if len(chosen) > 0 {
			page.Filtered = true
			query.Set(filter.name, strings.Join(chosen, ","))
		}
	}
	var found agentPage[agentFinding]
	if err := q.callAgent("list-findings", http.MethodGet, "/findings", query, nil, &found); err != nil {
		return err
	}
	page.Rows = found.Data
	if page.Pager = a.pager(findingsPageSize, len(found.Data), found.Pagination.Total); page.Pager.beyond() {
		return q.redirect(page.Pager.Previous)
	}
	return q.render(http.StatusOK, "findings", view{Title: "Findings", Section: "code", Live: liveSeconds, Data: page})
}

// findingPage is one finding.
type findingPage struct {
	agentFinding
	Where       []findingPlace
	SummaryText template.HTML
	WhyText     template.HTML
	FixText     template.HTML
	Confirmed   []*assay.Insight // what the telemetry shows of it
	Problem     string
	ByModel     bool // a language model proposes the fix
}

// findingPlace is a place in the code with the lines around it.
type findingPlace struct {
	agentLocation
	Text template.HTML // description, unless the summary has it
	Code []codeLine
}

// codeLine is a line of code.
type codeLine struct {
	Number int
	Text   template.HTML
	Marked bool
}

// codeText returns a line of code with tabs as spaces and invisible characters escaped.
func codeText(s string) template.HTML {
	return isolated(strings.ReplaceAll(strings.TrimRight(s, "\r\n"), "\t", "    "), longText)
}

const shownInsights = 10 // that a finding explains

func (h *Handler) finding(q *request) error {
	f, err := q.findFinding()
	if err != nil {
		return err
	}
	page := findingPage{agentFinding: *f, SummaryText: findingText(f.Summary), WhyText: markdown(f.Why), FixText: markdown(f.Fix), ByModel: !f.Fixable && q.cfg.AgentModel}
	for _, l := range f.Locations {
		place := findingPlace{agentLocation: l}
		if !strings.HasPrefix(f.Summary, l.Description) {
			place.Text = findingText(l.Description)
		}
		if l.Excerpt != nil {
			for i, text := range l.Excerpt.Lines {
				n := l.Excerpt.Start + i
				place.Code = append(place.Code, codeLine{n, codeText(text), n == l.Line})
			}
		}
		page.Where = append(page.Where, place)
	}
	for _, id := range f.Insights[:min(len(f.Insights), shownInsights)] {
		if uuid.Validate(id) != nil {
			continue
		}
		switch i, err := q.cfg.Insights.FindInsightByID(q.ctx, q.organization(), id); assay.ErrorCode(err) {
		case "":
			if err != nil {
				return err
			}
			page.Confirmed = append(page.Confirmed, i)
		case assay.CodeInsightNotFound, assay.CodeNotFound: // archived and expired since the review
		default:
			return err
		}
	}
	return q.render(http.StatusOK, "finding", view{Title: plain(f.Title), Section: "code", Live: liveSeconds, Data: page})
}

// findFinding returns the finding of the address, which may be dismissed or resolved.
func (q *request) findFinding() (*agentFinding, error) {
	repository, id := q.r.PathValue("id"), q.r.PathValue("finding")
	missing := assay.Errorf(assay.CodeNotFound, "no such finding")
	if uuid.Validate(repository) != nil || !findingID.MatchString(id) {
		return nil, missing
	}
	var found agentPage[agentFinding]
	query := url.Values{"repositoryId": {repository}, "findingId": {id}, "status": {"all"}}
	if err := q.callAgent("list-codebase-findings", http.MethodGet, "/codebase/findings", query, nil, &found); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(found.Data, func(f agentFinding) bool { return f.RepositoryID == repository && f.ID == id })
	if i < 0 {
		return nil, missing
	}
	return &found.Data[i], nil
}

// dismiss dismisses a finding with a reason, or makes it count again.
func (h *Handler) dismiss(dismissed bool) func(*request) error {
	return func(q *request) error {
		f, err := q.findFinding()
		if err != nil {
			return err
		}
		if err := q.readForm(); err != nil {
			return err
		}
		body := map[string]any{"dismissed": dismissed}
		if dismissed {
			body["dismissed_reason"] = strings.ToValidUTF8(strings.TrimSpace(q.r.PostFormValue("reason")), "\uFFFD")
		}
		at := "/repositories/" + f.RepositoryID + "/findings/" + url.PathEscape(f.ID)
		return q.done(q.callAgent("update-finding", http.MethodPatch, at, nil, body, nil), at)
	}
}
