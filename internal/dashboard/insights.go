// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"assay"
)

const insightsPageSize = 50

// insightsPage is the list of insights.
type insightsPage struct {
	Service  *assay.Service // nil: of all services
	Rule     *ruleText      // nil: of all rules
	Statuses []option
	Signals  []option
	Impacts  []option
	Sorts    []option
	From, To string // days, as a form has them
	Rows     []insightRow
	Pager    pager
	Filtered bool
	Mixed    bool   // insights of several statuses
	Clear    string // address without filters
	NoRule   string // address without the rule
	NoSvc    string // address without the service
}

// insightRow is an insight in a list.
type insightRow struct {
	*assay.Insight
	Rule     *ruleText
	Failures *failures // nil when it is not known
}

// Parameters of the list's address, beside those of services.
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
	{Value: "", Label: "Impact"},
	{Value: "-detected_ts", Label: "Last detected"},
	{Value: "detected_ts", Label: "First detected"},
	{Value: "-created_at", Label: "Newest"},
	{Value: "created_at", Label: "Oldest"},
	{Value: "-updated_at", Label: "Last changed"},
	{Value: "signal_type", Label: "Signal"},
}

func (h *Handler) insights(q *request) error {
	a := q.address()
	f := assay.InsightFilter{OrganizationID: q.organization(), Page: a.slice(insightsPageSize), Signal: assay.Signal(a.get(signalParam))}
	page := insightsPage{Clear: a.path, From: a.get(fromParam), To: a.get(toParam), NoRule: a.with(ruleParam, ""), NoSvc: a.with(serviceParam, "")}
	status, impact := a.get(statusParam), a.get(impactParam)
	switch s := assay.InsightStatus(status); s {
	case "":
		f.Statuses = []assay.InsightStatus{assay.InsightActive}
	case assay.InsightActive, assay.InsightArchived, assay.InsightMuted:
		f.Statuses = []assay.InsightStatus{s}
	case allStatuses:
	default:
		return assay.Errorf(assay.CodeInvalid, "The status has to be active, muted, archived or all.")
	}
	if impact != "" {
		i := assay.Impact(strings.ToUpper(impact[:1]) + impact[1:])
		if i.Weight() == 0 {
			return assay.Errorf(assay.CodeInvalid, "The impact has to be critical, important, normal or low.")
		}
		f.Impacts = []assay.Impact{i}
	}
	if !validSignal(f.Signal) {
		return assay.Errorf(assay.CodeInvalid, "The signal has to be trace, metric or log.")
	}
	order := a.get(sortParam)
	known := false
	for _, s := range insightSorts {
		known = known || s.Value == order
	}
	if !known {
		return assay.Errorf(assay.CodeInvalid, "The list cannot be sorted by that.")
	}
	field, descending := strings.CutPrefix(order, "-")
	f.Sort, f.Descending = assay.InsightSort(field), descending
	if order == "" {
		f.Sort, f.Descending = assay.SortImpact, true
	}
	var err error
	if f.CreatedFrom, err = day(page.From, 0); err != nil {
		return err
	}
	if f.CreatedTo, err = day(page.To, 24*time.Hour-time.Microsecond); err != nil {
		return err
	}
	if id := a.get(serviceParam); id != "" {
		if uuid.Validate(id) != nil {
			return assay.Errorf(assay.CodeServiceNotFound, "no such service")
		}
		if page.Service, err = q.cfg.Services.FindServiceByID(q.ctx, q.organization(), id); err != nil {
			return err
		}
		f.ServiceID = id
	}
	if id := a.get(ruleParam); id != "" {
		if page.Rule = q.ruleBySlug(id); page.Rule == nil {
			return assay.Errorf(assay.CodeInvalid, "There is no such rule.")
		}
		f.Type = page.Rule.Name
	}
	found, total, err := q.cfg.Insights.FindInsights(q.ctx, f)
	if err != nil {
		return err
	}
	page.Rows = q.insightRows(found)
	if page.Pager = a.pager(insightsPageSize, len(found), total); page.Pager.beyond() {
		return q.redirect(page.Pager.Previous)
	}
	page.Statuses = options(status, option{Label: "Active"}, option{Value: string(assay.InsightMuted), Label: "Muted"},
		option{Value: string(assay.InsightArchived), Label: "Archived"}, option{Value: allStatuses, Label: "Any status"})
	page.Signals = options(string(f.Signal), option{Label: "Any signal"}, option{Value: "trace", Label: "Traces"}, option{Value: "metric", Label: "Metrics"}, option{Value: "log", Label: "Logs"})
	page.Impacts = options(impact, option{Label: "Any impact"}, option{Value: "critical", Label: "Critical"}, option{Value: "important", Label: "Important"},
		option{Value: "normal", Label: "Normal"}, option{Value: "low", Label: "Low"})
	page.Sorts = options(order, append([]option(nil), insightSorts...)...)
	page.Mixed = status == allStatuses
	page.Filtered = status != "" || impact != "" || f.Signal != "" || page.From != "" || page.To != "" || page.Service != nil || page.Rule != nil
	return q.render(http.StatusOK, "insights", view{Title: "Insights", Section: "insights", Live: liveSeconds, Data: page})
}

// day returns a day of a form and a part of it, zero for none.
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
	rows := make([]insightRow, len(found))
	for i, f := range found {
		rows[i] = insightRow{Insight: f, Rule: q.ruleOf(f.Type), Failures: failuresOf(f)}
	}
	return rows
}

// failures is how often a rule failed.
type failures struct {
	Share string // 5.8%
	Of    string // 2.5M
	Exact string // 7 of 120
}

// failuresOf returns nil when it is not known.
func failuresOf(i *assay.Insight) *failures {
	failed, ok1 := wholeNumber(i.Attributes["violations_total"])
	observed, ok2 := wholeNumber(i.Attributes["observations_total"])
	if !ok1 || !ok2 || observed == 0 {
		return nil
	}
	return &failures{
		Share: percent(float64(failed), float64(observed)), Of: compact(observed),
		Exact: thousands(failed) + " of " + thousands(observed) + " failed",
	}
}

// wholeNumber returns a count as evidence has it, from Go code or from JSON.
func wholeNumber(v any) (uint64, bool) {
	switch n := v.(type) {
	case int64:
		return uint64(max(0, n)), true
	case int:
		return uint64(max(0, n)), true
	case uint64:
		return n, true
	case float64:
		if n >= 0 && n < 1<<63 {
			return uint64(n), true
		}
	}
	return 0, false
}
