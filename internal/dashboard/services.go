// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"assay"
)

const (
	servicesPageSize = 50
	sparkPoints      = 24
	maxEnvironments  = 200 // choices of the filter
	maxSearch        = 200 // bytes
)

// servicesPage is the list of services.
type servicesPage struct {
	Search       string
	Environments []option
	Bands        []option
	Signals      []option
	Sorts        []option
	Columns      []column
	Rows         []serviceRow
	Pager        pager
	Filtered     bool
}

// serviceRow is a service in a list.
type serviceRow struct {
	assay.ServiceRow
	Score *scoreValue
	Spark *sparkline
}

// Parameters of the list's address.
const (
	searchParam      = "q"
	environmentParam = "environment"
	bandParam        = "band"
	signalParam      = "signal"
	sortParam        = "sort"
)

// Address values for an unnamed environment, and the prefix before the hash of an environment whose name cannot be
// used in addresses.
const (
	unnamed = "-"
	hashed  = "~"
)

// environmentValue returns the value for an environment in a URL.
func environmentValue(e string) string {
	if e == "" {
		return unnamed
	}
	if e == unnamed || strings.HasPrefix(e, hashed) || len(e) > maxSearch || e != plain(e) {
		sum := sha256.Sum256([]byte(e))
		return hashed + hex.EncodeToString(sum[:8])
	}
	return e
}

// serviceSorts are the orders of the list, as an address names them. Of two of a field,
// the one that the head of its column begins with comes first.
var serviceSorts = []option{
	{Value: "", Label: "Name, A to Z"},
	{Value: "-name", Label: "Name, Z to A"},
	{Value: "score", Label: "Lowest score"},
	{Value: "-score", Label: "Highest score"},
	{Value: "-insights", Label: "Most insights"},
	{Value: "insights", Label: "Fewest insights"},
	{Value: "-last_seen", Label: "Last seen"},
	{Value: "last_seen", Label: "Not seen for longest"},
}

func (h *Handler) services(q *request) error {
	a := q.address()
	f := assay.ServiceFilter{
		OrganizationID: q.organization(), Search: searched(strings.TrimSpace(a.get(searchParam))),
		Page: a.slice(servicesPageSize), Series: q.series(sparkPoints),
	}
	environments, err := q.environmentNames()
	environment := a.get(environmentParam)
	switch {
	case environment == "":
	case environment == unnamed:
		f.Environment = new(string)
	case err != nil && strings.HasPrefix(environment, hashed):
		return err
	default:
		f.Environment = &environment // one beyond the list can be named, too
		for _, e := range environments {
			if environmentValue(e) == environment {
				f.Environment = &e
			}
		}
	}
	band, signal := a.get(bandParam), a.get(signalParam)
	f.Category, f.Signal = bandOf(band), assay.Signal(signal)
	if band != "" && f.Category == "" {
		return assay.Errorf(assay.CodeInvalid, "There is no such band.")
	}
	if !validSignal(f.Signal) {
		return assay.Errorf(assay.CodeInvalid, "The signal has to be trace, metric or log.")
	}
	sorts, err := a.sorts(serviceSorts)
	if err != nil {
		return err
	}
	by, descending := sorts.field(string(assay.SortServiceName))
	f.Sort, f.Descending = assay.ServiceSort(by), descending

	rows, total, err := q.cfg.ServiceLists.FindServiceRows(q.ctx, f)
	if err != nil {
		return err
	}
	page := servicesPage{
		Search: f.Search, Sorts: sorts, Rows: serviceRows(rows, f.Series), Pager: a.pager(servicesPageSize, len(rows), total),
		Environments: environmentOptions(environment, environments),
		Bands:        bandOptions(band),
		Signals:      signalOptions(signal),
		Filtered:     f.Search != "" || environment != "" || band != "" || signal != "",
	}
	if page.Pager.beyond() {
		return q.redirect(page.Pager.Previous)
	}
	page.Columns = a.columns(sorts, string(assay.SortServiceName),
		column{Label: "Service", By: string(assay.SortServiceName)}, column{Label: "Score", By: string(assay.SortServiceScore)}, column{Label: "Series"},
		column{Label: "Insights", By: string(assay.SortServiceInsights)}, column{Label: "Last seen", By: string(assay.SortServiceLastSeen), Class: "end"})
	return q.render(http.StatusOK, "services", view{Title: "Services", Section: "services", Live: liveSeconds, Data: page})
}

// environmentNames returns the choices of the environment filter. If they cannot be read, the list is shown without
// the filter.
func (q *request) environmentNames() ([]string, error) {
	ctx, cancel := context.WithTimeout(q.ctx, sideTimeout)
	defer cancel()
	names, err := q.environments.get(ctx, q.organization())
	if err != nil && q.r.Context().Err() == nil {
		q.log(slog.LevelWarn, fmt.Errorf("environments: %w", err))
	}
	return names, err
}

func serviceRows(found []*assay.ServiceRow, c assay.SeriesRange) []serviceRow {
	rows := make([]serviceRow, len(found))
	for i, f := range found {
		rows[i] = serviceRow{ServiceRow: *f, Score: scoreOf(f.Service.Score), Spark: newSparkline(f.Series, c.Start, c.End)}
	}
	return rows
}

// bandSlugs are the bands as addresses name them.
var bandSlugs = map[string]string{
	"excellent": "Excellent", "good": "Good", "needs-improvement": "Needs Improvement", "poor": "Poor", "unscored": assay.Unscored,
}

func bandOf(slug string) string { return bandSlugs[slug] }

// slug returns a text as addresses and classes name it.
func slug(s string) string { return strings.ReplaceAll(strings.ToLower(s), " ", "-") }

func bandOptions(chosen string) []option {
	all := []option{{Label: "Any band"}}
	for _, b := range append(assay.Categories(), assay.Unscored) {
		all = append(all, option{Value: slug(b), Label: b})
	}
	return options(chosen, all...)
}

func environmentOptions(chosen string, environments []string) []option {
	all := []option{{Label: "Any environment"}}
	for _, e := range environments {
		o := option{Value: environmentValue(e), Label: plain(e)}
		if e == "" {
			o.Label = "None named"
		}
		all = append(all, o)
	}
	return options(chosen, all...)
}

func signalOptions(chosen string) []option {
	return options(chosen, option{Label: "Any signal"},
		option{Value: string(assay.SignalTrace), Label: "Traces"}, option{Value: string(assay.SignalMetric), Label: "Metrics"}, option{Value: string(assay.SignalLog), Label: "Logs"})
}

func validSignal(s assay.Signal) bool {
	switch s {
	case "", assay.SignalTrace, assay.SignalMetric, assay.SignalLog:
		return true
	default:
		return false
	}
}

// searched returns the searchable part of a text: valid UTF-8 of at most maxSearch bytes.
func searched(s string) string {
	if len(s) > maxSearch {
		s = s[:maxSearch]
	}
	return strings.ToValidUTF8(s, "")
}
