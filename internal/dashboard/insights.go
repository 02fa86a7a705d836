// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"assay"
	"assay/internal/lists"
)

const (
	insightsPageSize = 50
	shownCandidates  = 20 // services of a name that are offered
)

// insightsPage is the list of insights.
type insightsPage struct {
	Name       string         // of the service, as the form has it
	Service    *assay.Service // nil: of all services
	Candidates []candidate    // services of that name, of which one is to be chosen
	Unlisted   int            // more of them
	Rule       *ruleText      // nil: of all rules
	Rules      []option
	Statuses   []option
	Signals    []option
	Impacts    []option
	Sorts      []option
	From, To   string // days, as a form has them
	Rows       []insightRow
	Date       string // which one the list shows: Detected, Created or Changed
	Pager      pager
	Filtered   bool
	Mixed      bool   // insights of several statuses
	Clear      string // address without filters
	NoRule     string // address without the rule
	NoSvc      string // address without the service

	Organization *assay.Organization // of an empty list without filters; otherwise nil
}

// candidate is a service that a name may mean, with the address of its insights.
type candidate struct {
	*assay.ServiceRow
	Link string
}

// insightRow is an insight in a list.
type insightRow struct {
	*assay.Insight
	Rule     *ruleText
	Failures *failures // nil when it is not known
	Date     time.Time
}

// Parameters of the list's address, beside the parameters of services.
const (
	serviceParam = "service"
	statusParam  = "status"
	impactParam  = "impact"
	ruleParam    = "rule"
	fromParam    = "from"
	toParam      = "to"

	allStatuses = "all"
	dayForm     = "2006-01-02"
)

// insightSorts are the orders of the list, as an address names them.
var insightSorts = []option{
	{Value: "", Label: "Highest impact"},
	{Value: "impact", Label: "Lowest impact"},
	{Value: "-detected_ts", Label: "Latest detected"},
	{Value: "detected_ts", Label: "Earliest detected"},
	{Value: "-created_at", Label: "Latest created"},
	{Value: "created_at", Label: "Earliest created"},
	{Value: "-updated_at", Label: "Latest changed"},
	{Value: "updated_at", Label: "Earliest changed"},
	{Value: "signal_type", Label: "Signal"},
}

// defaultInsights is the default order.
const defaultInsights = "-" + string(assay.SortImpact)

func (h *Handler) insights(q *request) error {
	a := q.address()
	page := insightsPage{Clear: a.path, From: a.get(fromParam), To: a.get(toParam), NoRule: a.with(ruleParam, ""), NoSvc: a.without(searchParam).with(serviceParam, "")}
	f, err := q.insightFilter(a, &page)
	if err != nil {
		return err
	}
	if err := q.chooseService(a, &page); err != nil {
		return err
	}
	page.Filtered = page.Filtered || page.Name != "" || page.Service != nil
	if page.Service != nil {
		f.ServiceID = page.Service.ID
	}
	if page.Service != nil || page.Name == "" {
		found, total, err := q.cfg.Insights.FindInsights(q.ctx, f)
		if err != nil {
			return err
		}
		if page.Pager = a.pager(insightsPageSize, len(found), total); page.Pager.beyond() {
			return q.redirect(page.Pager.Previous)
		}
		page.Rows = q.insightRows(found)
		page.date(f)
		if len(found) == 0 && !page.Filtered {
			if page.Organization, err = q.cfg.Organizations.FindOrganizationByID(q.ctx, q.organization()); err != nil {
				return err
			}
		}
	}
	return q.render(http.StatusOK, "insights", view{Title: "Insights", Section: "insights", Live: liveSeconds, Data: page})
}

// insightFilter returns the filter of the address, except the service, and fills the choices of the form.
func (q *request) insightFilter(a address, page *insightsPage) (assay.InsightFilter, error) {
	f := assay.InsightFilter{OrganizationID: q.organization(), Page: a.slice(insightsPageSize), Signal: assay.Signal(a.get(signalParam))}
	statuses := []assay.InsightStatus{assay.InsightActive, assay.InsightMuted, assay.InsightArchived}
	asked := a.all(statusParam)
	for _, s := range asked {
		if s != allStatuses && !slices.Contains(statuses, assay.InsightStatus(s)) {
			return f, assay.Errorf(assay.CodeInvalid, "The status has to be active, muted, archived or all.")
		}
	}
	if len(asked) == 0 {
		asked = []string{string(assay.InsightActive)}
	}
	for _, s := range statuses {
		o := option{Value: string(s), Label: title(string(s)), Chosen: slices.Contains(asked, string(s)) || slices.Contains(asked, allStatuses)}
		if page.Statuses = append(page.Statuses, o); o.Chosen {
			f.Statuses = append(f.Statuses, s)
		}
	}
	page.Mixed = len(f.Statuses) > 1
	page.Filtered = !slices.Equal(f.Statuses, statuses[:1])

	impacts := []assay.Impact{assay.ImpactCritical, assay.ImpactImportant, assay.ImpactNormal, assay.ImpactLow}
	asked = a.all(impactParam)
	for _, s := range asked {
		if !slices.Contains(impacts, assay.Impact(title(s))) {
			return f, assay.Errorf(assay.CodeInvalid, "The impact has to be critical, important, normal or low.")
		}
		f.Impacts = append(f.Impacts, assay.Impact(title(s)))
	}
	for _, i := range impacts {
		page.Impacts = append(page.Impacts, option{Value: slug(string(i)), Label: string(i), Chosen: slices.Contains(f.Impacts, i)})
	}

	if !validSignal(f.Signal) {
		return f, assay.Errorf(assay.CodeInvalid, "The signal has to be trace, metric or log.")
	}
	page.Signals = signalOptions(string(f.Signal))

	sorts, err := a.sorts(insightSorts)
	if err != nil {
		return f, err
	}
	page.Sorts = sorts
	field, descending := sorts.field(defaultInsights)
	f.Sort, f.Descending = assay.InsightSort(field), descending

	if f.CreatedFrom, err = day(page.From, 0); err != nil {
		return f, err
	}
	if f.CreatedTo, err = day(page.To, 24*time.Hour-time.Microsecond); err != nil {
		return f, err
	}
	if !f.CreatedFrom.IsZero() && !f.CreatedTo.IsZero() && f.CreatedFrom.After(f.CreatedTo) {
		return f, assay.Errorf(assay.CodeInvalid, "The first day has to be before the last.")
	}

	if id := a.get(ruleParam); id != "" {
		if page.Rule = q.ruleBySlug(id); page.Rule == nil {
			return f, assay.Errorf(assay.CodeInvalid, "There is no such rule.")
		}
		f.Type = page.Rule.Name
	}
	page.Rules = []option{{Label: "Any finding", Chosen: page.Rule == nil}}
	for _, r := range q.rules {
		page.Rules = append(page.Rules, option{Value: r.Slug, Label: strings.TrimSpace(r.ID + " " + r.Title), Chosen: page.Rule == r})
	}
	page.Filtered = page.Filtered || len(f.Impacts) > 0 || f.Signal != "" || page.From != "" || page.To != "" || page.Rule != nil
	return f, nil
}

// chooseService finds the service of the address: by id, or by a name, which several services may have. A name that is
// not the name of the id was entered after the id was selected.
func (q *request) chooseService(a address, page *insightsPage) error {
	text := searched(strings.TrimSpace(a.get(searchParam)))
	_, written := a.query[searchParam]
	if id := a.get(serviceParam); id != "" {
		if uuid.Validate(id) != nil {
			return assay.Errorf(assay.CodeServiceNotFound, "no such service")
		}
		s, err := q.cfg.Services.FindServiceByID(q.ctx, q.organization(), id)
		if err != nil {
			return err
		}
		if !written || text == searched(plain(s.Name)) {
			page.Service, page.Name = s, plain(s.Name)
			return nil
		}
	}
	if page.Name = text; text == "" {
		return nil
	}
	const looked = 100 // services with the text in their names
	found, total, err := q.cfg.ServiceLists.FindServiceRows(q.ctx, assay.ServiceFilter{OrganizationID: q.organization(), Search: text, Page: assay.Page{Limit: looked}})
	if err != nil {
		return err
	}
	exact := slices.DeleteFunc(slices.Clone(found), func(r *assay.ServiceRow) bool { return !strings.EqualFold(r.Name, text) })
	if len(exact) > 0 {
		found, total = exact, len(exact)
	}
	if total == 1 {
		page.Service = &found[0].Service
		return nil
	}
	for _, r := range found[:min(len(found), shownCandidates)] {
		page.Candidates = append(page.Candidates, candidate{r, a.without(searchParam).with(serviceParam, r.ID)})
	}
	page.Unlisted = total - len(page.Candidates)
	return nil
}

// date selects the date column: the date by which the list is sorted or filtered.
func (p *insightsPage) date(f assay.InsightFilter) {
	p.Date = "Detected"
	switch {
	case f.Sort == assay.SortUpdatedAt:
		p.Date = "Changed"
	case f.Sort == assay.SortCreatedAt, f.Sort != assay.SortDetectedAt && (!f.CreatedFrom.IsZero() || !f.CreatedTo.IsZero()):
		p.Date = "Created"
	}
	for i := range p.Rows {
		r := &p.Rows[i]
		switch p.Date {
		case "Changed":
			r.Date = r.UpdatedAt
		case "Created":
			r.Date = r.CreatedAt
		default:
			r.Date = r.DetectedAt
		}
	}
}

// title returns a word with its first letter in upper case.
func title(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + s[n:]
}

// day parses a date of a form and adds plus. It returns the zero time for an empty text.
func day(text string, plus time.Duration) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(dayForm, text)
	if err != nil || t.Year() < 1970 || t.Year() > 2199 {
		return time.Time{}, assay.Errorf(assay.CodeInvalid, "A day has to be written like 2026-11-30.")
	}
	return t.Add(plus), nil
}

func (q *request) insightRows(found []*assay.Insight) []insightRow {
	return lists.Map(found, func(f *assay.Insight) insightRow {
		return insightRow{Insight: f, Rule: q.ruleOf(f.Type), Failures: failuresOf(f)}
	})
}

// failures is the failure count of a rule.
type failures struct {
	Share string // 5.8%
	Of    string // 2.5M
	Exact string // 7 of 120
}

// failuresOf returns nil if the counts are unknown.
func failuresOf(i *assay.Insight) *failures {
	failed, observed, ok := assay.FailureCounts(i.Attributes)
	if !ok || observed == 0 {
		return nil
	}
	return &failures{
		Share: percent(float64(failed), float64(observed)), Of: compact(observed),
		Exact: thousands(failed) + " of " + thousands(observed) + " failed",
	}
}
