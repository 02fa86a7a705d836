// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"assay"
	"assay/internal/lists"
)

const costsPageSize = 50

// costsPage is the usage and cost of all services.
type costsPage struct {
	Search   string
	Sorts    []option
	Columns  []column
	Cost     *costPart // nil if it is unknown
	Pager    pager
	Filtered bool
}

// costPart is the usage and cost of services.
type costPart struct {
	Days       int
	TotalBytes uint64
	TotalCost  string
	Avoidable  string // of all services; "" if nothing is avoidable
	Services   int    // that sent something
	Rows       []costRow
}

// costRow is the usage and cost of one service.
type costRow struct {
	*assay.ServiceCost
	Bytes        uint64
	Share        string // of the organization's bytes
	Cost, Saving string // Saving is "" where nothing is avoidable
	SavingShare  string
	Signals      []costSignal // traces, metrics, logs
}

// costSignal is the usage of one signal by a service. X and Width are its part of a bar. The longest bar is the
// service with the most bytes.
type costSignal struct {
	Name, Class  string
	Bytes, Items uint64
	Of           string // the kind of the items
	Cost, Saving string // as of costRow
	X, Width     string
}

// Fields by which costs are sorted.
const (
	costField      = "cost"
	avoidableField = "avoidable"
	bytesField     = "bytes"
	tracesField    = "traces"
	metricsField   = "metrics"
	logsField      = "logs"
	nameField      = "name"

	mostCost = "-" + costField // the default order
)

// costSorts are the orders of the list, as an address names them.
var costSorts = []option{
	{Value: "", Label: "Most cost"},
	{Value: costField, Label: "Least cost"},
	{Value: "-" + avoidableField, Label: "Most avoidable cost"},
	{Value: "-" + bytesField, Label: "Most bytes"},
	{Value: bytesField, Label: "Fewest bytes"},
	{Value: "-" + tracesField, Label: "Most bytes of traces"},
	{Value: "-" + metricsField, Label: "Most bytes of metrics"},
	{Value: "-" + logsField, Label: "Most bytes of logs"},
	{Value: nameField, Label: "Name, A to Z"},
	{Value: "-" + nameField, Label: "Name, Z to A"},
}

func (h *Handler) costs(q *request) error {
	a := q.address()
	sorts, err := a.sorts(costSorts)
	if err != nil {
		return err
	}
	page := costsPage{Search: searched(strings.TrimSpace(a.get(searchParam))), Sorts: sorts}
	page.Filtered = page.Search != ""
	page.Columns = a.columns(sorts, mostCost,
		column{Label: "Service", By: nameField}, column{Label: "Bytes by signal"},
		column{Label: "Traces", By: tracesField, Class: "num"}, column{Label: "Metrics", By: metricsField, Class: "num"}, column{Label: "Logs", By: logsField, Class: "num"},
		column{Label: "Bytes", By: bytesField, Class: "num"}, column{Label: "Cost", By: costField, Class: "num"}, column{Label: "Avoidable", By: avoidableField, Class: "num"})
	if found := q.analysis(q.ctx); found != nil {
		services, err := q.sorted(found, page.Search, sorts)
		if err != nil {
			return err
		}
		slice := a.slice(costsPageSize)
		begin := min(slice.Offset, len(services))
		shown := services[begin:min(begin+slice.Limit, len(services))]
		page.Pager = a.pager(costsPageSize, len(shown), len(services))
		if page.Pager.beyond() {
			return q.redirect(page.Pager.Previous)
		}
		page.Cost = found.part(shown)
	}
	return q.render(http.StatusOK, "costs", view{Title: "Costs", Section: "costs", Live: liveSeconds, Data: page})
}

// sorted returns the services whose name contains a text. An organization may have thousands, so this takes a turn at
// the CPU like the template.
func (q *request) sorted(found *analysis, search string, sorts sorting) ([]*assay.ServiceCost, error) {
	leave, err := q.cfg.CPU.Enter(q.ctx, q.organization())
	if err != nil {
		return nil, err
	}
	defer leave()
	services := found.search(search)
	if by, descending := sorts.field(mostCost); sorts.order().Value != "" {
		sortCosts(services, by, descending)
	}
	return services, nil
}

// analysis is the usage and cost of an organization's services. It is shared and immutable.
type analysis struct {
	*assay.ServiceAnalytics
	byCost    []*assay.ServiceCost // all services, most cost first
	avoidable float64
}

// analyze reads an analysis.
func (h *Handler) analyze(ctx context.Context, organizationID string) (*analysis, error) {
	found, err := h.cfg.Analyst.Analyze(ctx, organizationID, analyzed)
	if err != nil {
		return nil, err
	}
	a := &analysis{ServiceAnalytics: found, byCost: make([]*assay.ServiceCost, len(found.Services))}
	for i := range found.Services {
		a.byCost[i] = &found.Services[i]
		a.avoidable += found.Services[i].AvoidableCost
	}
	sortCosts(a.byCost, costField, true)
	return a, nil
}

// analysis returns usage and cost, or nil if they cannot be read.
func (q *request) analysis(ctx context.Context) *analysis {
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	found, err := q.analytics.get(ctx, q.organization())
	if err != nil {
		if q.r.Context().Err() == nil && !errors.Is(err, context.Canceled) {
			q.log(slog.LevelWarn, fmt.Errorf("usage and cost: %w", err))
		}
		return nil
	}
	return found
}

// search returns the services whose name contains a text, ignoring case, by descending cost. The caller may reorder
// the result.
func (a *analysis) search(text string) []*assay.ServiceCost {
	if text == "" {
		return slices.Clone(a.byCost)
	}
	text = strings.ToLower(text)
	var services []*assay.ServiceCost
	for _, s := range a.byCost {
		if strings.Contains(strings.ToLower(s.Name), text) {
			services = append(services, s)
		}
	}
	return services
}

// sortCosts sorts services by a field; ties by bytes, the most first, then by name.
func sortCosts(services []*assay.ServiceCost, by string, descending bool) {
	names := func(a, b *assay.ServiceCost) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Environment, b.Environment))
	}
	field := map[string]func(a, b *assay.ServiceCost) int{
		costField:      func(a, b *assay.ServiceCost) int { return cmp.Compare(a.EstimatedCost, b.EstimatedCost) },
		avoidableField: func(a, b *assay.ServiceCost) int { return cmp.Compare(a.AvoidableCost, b.AvoidableCost) },
		bytesField:     func(a, b *assay.ServiceCost) int { return cmp.Compare(a.Bytes(), b.Bytes()) },
		tracesField:    func(a, b *assay.ServiceCost) int { return cmp.Compare(a.Traces.Bytes, b.Traces.Bytes) },
		metricsField:   func(a, b *assay.ServiceCost) int { return cmp.Compare(a.Metrics.Bytes, b.Metrics.Bytes) },
		logsField:      func(a, b *assay.ServiceCost) int { return cmp.Compare(a.Logs.Bytes, b.Logs.Bytes) },
		nameField:      names,
	}[by]
	slices.SortFunc(services, func(a, b *assay.ServiceCost) int {
		c := field(a, b)
		if descending {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(b.Bytes(), a.Bytes()), names(a, b))
	})
}

// top returns the part about the services that cost most.
func (a *analysis) top(limit int) *costPart {
	return a.part(a.byCost[:min(limit, len(a.byCost))])
}

// part returns the usage and cost of the given services.
func (a *analysis) part(services []*assay.ServiceCost) *costPart {
	part := &costPart{
		Days: int(a.End.Sub(a.Start) / (24 * time.Hour)), TotalBytes: a.TotalBytes, TotalCost: money(a.TotalCost, a.Currency),
		Services: len(a.Services),
	}
	if a.avoidable > 0 {
		part.Avoidable = money(a.avoidable, a.Currency)
	}
	var most uint64
	for _, s := range services {
		most = max(most, s.Bytes())
	}
	part.Rows = lists.Map(services, func(s *assay.ServiceCost) costRow { return a.row(s, most) })
	return part
}

// row returns the row of a service. The length of its bar is its share of most, in bytes.
func (a *analysis) row(s *assay.ServiceCost, most uint64) costRow {
	row := costRow{
		ServiceCost: s, Bytes: s.Bytes(), Share: percent(float64(s.Bytes()), float64(a.TotalBytes)), Cost: money(s.EstimatedCost, a.Currency),
	}
	if s.AvoidableCost > 0 {
		row.Saving, row.SavingShare = money(s.AvoidableCost, a.Currency), percent(s.AvoidableCost, s.EstimatedCost)
	}
	x := 0.0
	for _, of := range []struct {
		name, items string
		usage       assay.SignalUsage
		cost        assay.SignalCost
	}{
		{"Traces", "spans", s.Traces, s.TracesCost},
		{"Metrics", "data points", s.Metrics, s.MetricsCost},
		{"Logs", "log records", s.Logs, s.LogsCost},
	} {
		width := float64(of.usage.Bytes) / float64(max(1, most))
		signal := costSignal{
			Name: of.name, Class: slug(of.name), Bytes: of.usage.Bytes, Items: of.usage.Items, Of: of.items,
			Cost: money(of.cost.Estimated, a.Currency), X: share(x), Width: share(width),
		}
		if of.cost.Avoidable > 0 {
			signal.Saving = money(of.cost.Avoidable, a.Currency)
		}
		x += width
		row.Signals = append(row.Signals, signal)
	}
	return row
}

// serviceCost returns usage and cost of all versions of a service, or nil if they are unknown.
func (q *request) serviceCost(ctx context.Context, key assay.ServiceKey) *costPart {
	found := q.analysis(ctx)
	if found == nil {
		return nil
	}
	for i, s := range found.Services {
		if s.Name == key.Name && s.Namespace == key.Namespace && s.Environment == key.Environment {
			return found.part([]*assay.ServiceCost{&found.Services[i]})
		}
	}
	return nil
}
