// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"assay"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
	"assay/internal/score"
)

const (
	historyPoints   = 120 // of a service's series that are drawn
	changesPageSize = 12
	serviceInsights = catalog.Count // a service has one of each type at most
)

// RuleStater reads the states of rules for a service. Implementations must be safe for concurrent use.
type RuleStater interface {
	// RuleStates returns the states of all rules of the score, in the catalog's order. It returns CodeServiceNotFound
	// for an id that is unknown or another organization's.
	RuleStates(ctx context.Context, organizationID, serviceID string) ([]score.RuleState, error)
}

// servicePage is one service.
type servicePage struct {
	*assay.Service
	Score    *scoreValue
	Series   *scoreChart // nil without points
	Changes  []change    // newest first
	Pager    pager       // of the changes
	Rules    []ruleState
	Passed   int
	Failed   int
	Skipped  int
	Versions versionsPart
	Others   string // address of a list with all of the versions
	Insights []insightRow
	Hidden   int // muted and archived insights
	All      string
	Cost     *costPart // of this service alone; nil when it is not known
}

// ruleState is the state of a rule for a service.
type ruleState struct {
	Rule      *ruleText
	State     score.State
	Observed  uint64
	Failed    uint64
	Share     string // that failed
	InsightID string // "" when there is none
	Muted     bool
}

// change is a time at which rules changed their state.
type change struct {
	At             time.Time
	Before, After  scoreValue
	Failing, Fixed []*ruleText  // that began to fail, that failed and pass now
	Other          []transition // that began or ceased to be evaluated
}

// transition is a change of a rule between passed and not evaluated.
type transition struct {
	Rule  *ruleText
	State score.State
}

func (h *Handler) service(q *request) error {
	id := q.r.PathValue("id")
	if uuid.Validate(id) != nil {
		return assay.Errorf(assay.CodeServiceNotFound, "no such service")
	}
	service, err := q.cfg.Services.FindServiceByID(q.ctx, q.organization(), id)
	if err != nil {
		return err
	}
	page := servicePage{
		Service: service, Score: scoreOf(service.Score),
		Others: "/services" + encoded(url.Values{
			searchParam: {searched(service.Name)}, environmentParam: {environmentValue(service.Environment)}, sortParam: {"-last_seen"},
		}),
		All: "/insights?" + serviceParam + "=" + id + "&" + statusParam + "=" + allStatuses,
	}
	var (
		history  []*assay.Score
		states   []score.RuleState
		versions versionsRead
		insights []*assay.Insight
		series   = q.series(sparkPoints)
		a        = q.address()
	)
	a.fragment = "#changes"
	reads, ctx := errgroup.WithContext(q.ctx)
	reads.Go(func() (err error) {
		history, err = q.cfg.Overviews.ScoreHistory(ctx, q.organization(), id, series.Start)
		return err
	})
	reads.Go(func() (err error) {
		states, err = q.cfg.States.RuleStates(ctx, q.organization(), id)
		return err
	})
	reads.Go(func() (err error) {
		versions, err = q.readVersions(ctx, service, a.all(withParam), series)
		return err
	})
	reads.Go(func() (err error) {
		insights, _, err = q.cfg.Insights.FindInsights(ctx, assay.InsightFilter{
			OrganizationID: q.organization(), ServiceID: id, Sort: assay.SortImpact, Descending: true, Page: assay.Page{Limit: serviceInsights},
		})
		return err
	})
	reads.Go(func() error {
		page.Cost = q.serviceCost(ctx, service.ServiceKey)
		return nil
	})
	if err := reads.Wait(); err != nil {
		return err
	}
	page.Series, page.Changes = q.history(history, series)
	slice := a.slice(changesPageSize)
	begin, total := min(slice.Offset, len(page.Changes)), len(page.Changes)
	page.Changes = page.Changes[begin:min(begin+slice.Limit, total)]
	if page.Pager = a.pager(changesPageSize, len(page.Changes), total); page.Pager.beyond() {
		return q.redirect(page.Pager.Previous)
	}
	byType := map[string]*assay.Insight{}
	var active []*assay.Insight
	for _, i := range insights {
		byType[i.Type] = i
		if i.Status == assay.InsightActive {
			active = append(active, i)
		}
	}
	page.Insights, page.Hidden = q.insightRows(active), len(insights)-len(active)
	for _, s := range states {
		state := q.stateOf(s)
		switch s.State {
		case score.Passed:
			page.Passed++
		case score.Failed:
			page.Failed++
		default:
			page.Skipped++
		}
		if i := byType[state.Rule.Name]; i != nil && s.State == score.Failed {
			state.InsightID, state.Muted = i.ID, i.Status == assay.InsightMuted
		}
		page.Rules = append(page.Rules, state)
	}
	sortStates(page.Rules)
	page.Versions = q.versions(versions, service, page.Rules, ownRow(service, history, active), series)
	return q.render(http.StatusOK, "service", view{Title: plain(service.Name), Section: "services", Live: liveSeconds, Data: page})
}

func (h *Handler) stateOf(s score.RuleState) ruleState {
	state := ruleState{Rule: h.rules[s.Rule], State: s.State, Observed: s.Observed, Failed: s.Failed}
	if s.State == score.Failed {
		state.Share = percent(float64(s.Failed), float64(s.Observed))
	}
	return state
}

// sortStates sorts failed rules first, then passed ones, each by descending impact.
func sortStates(states []ruleState) {
	order := map[score.State]int{score.Failed: 0, score.Passed: 1, score.NotEvaluated: 2}
	slices.SortStableFunc(states, func(a, b ruleState) int {
		if d := order[a.State] - order[b.State]; d != 0 {
			return d
		}
		return b.Rule.Impact.Weight() - a.Rule.Impact.Weight()
	})
}

// history returns the time series of a service's score and the state changes of rules, newest first.
func (q *request) history(scores []*assay.Score, c assay.SeriesRange) (*scoreChart, []change) {
	chart := newScoreChart("Score of the service", thinned(pointsOf(scores), historyPoints), c.Start, c.End)
	values := make(map[time.Time]int, len(scores)) // index
	for i, s := range scores {
		values[s.CalculatedAt] = i
	}
	var changes []change
	for _, found := range score.Changes(scores) {
		at := values[found.At]
		one := change{At: found.At, After: roundedScore(scores[at].Value), Before: roundedScore(scores[max(0, at-1)].Value)}
		for _, t := range found.Transitions {
			r, ok := catalog.ByID(t.RuleID)
			switch {
			case !ok: // of a newer version
			case t.To == score.Failed:
				one.Failing = append(one.Failing, q.rules[r])
			case t.From == score.Failed && t.To == score.Passed:
				one.Fixed = append(one.Fixed, q.rules[r])
			default:
				one.Other = append(one.Other, transition{q.rules[r], t.To})
			}
		}
		changes = append(changes, one)
		if chart != nil {
			chart.mark(found.At, c.End, one.kind(), one.words())
		}
	}
	slices.Reverse(changes)
	return chart, changes
}

func pointsOf(scores []*assay.Score) []assay.ScorePoint {
	return lists.Map(scores, func(s *assay.Score) assay.ScorePoint { return assay.ScorePoint{At: s.CalculatedAt, Value: s.Value} })
}

func (c *change) kind() markKind {
	switch {
	case len(c.Failing) > 0:
		return markFail
	case len(c.Fixed) > 0:
		return markPass
	default:
		return markTurn
	}
}

// words describes the changes: "MET-002 began to fail; RES-001 passes".
func (c *change) words() string {
	all := lists.Map(c.Failing, func(r *ruleText) string { return r.ID + " began to fail" })
	for _, r := range c.Fixed {
		all = append(all, r.ID+" passes")
	}
	for _, t := range c.Other {
		all = append(all, t.Rule.ID+" "+t.Words())
	}
	return c.At.UTC().Format(minuteLayout) + ": " + strings.Join(all, "; ")
}

// Words describes the new state of the rule: "is evaluated and passes".
func (t transition) Words() string {
	if t.State == score.Passed {
		return "is evaluated and passes"
	}
	return "is not evaluated any more"
}

// thinned returns about n of the points, including the first and the last. It adds up to n points at which the value
// changed, so that changes are drawn at their time.
func thinned(points []assay.ScorePoint, n int) []assay.ScorePoint {
	if len(points) <= n {
		return points
	}
	kept := make([]bool, len(points))
	for i := range n {
		kept[i*(len(points)-1)/(n-1)] = true
	}
	var changed []int
	for i := 1; i < len(points); i++ {
		if points[i].Value != points[i-1].Value {
			changed = append(changed, i)
		}
	}
	if len(changed) <= n {
		for _, i := range changed {
			kept[i] = true
		}
	}
	var some []assay.ScorePoint
	for i, k := range kept {
		if k {
			some = append(some, points[i])
		}
	}
	return some
}
