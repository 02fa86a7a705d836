// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"assay"
	"assay/internal/rules/catalog"
	"assay/internal/score"
)

const (
	shownVersions    = 10
	countedVersions  = 200
	comparedVersions = 4 // side by side

	withParam = "with" // ids of the versions to compare with
)

// versionsPart is the comparison of the versions of a service.
type versionsPart struct {
	Rows    []versionRow // the one of the page among them; none for a single version
	Total   int
	More    bool // there are more than Total
	Compare *comparison
}

// versionRow is a version in the list.
type versionRow struct {
	serviceRow
	Own      bool // of the page
	Compared bool
}

// comparison holds the states of rules for several versions.
type comparison struct {
	Versions []*assay.Service
	Differ   []comparedRule // rules whose state differs between versions
	Same     []comparedRule
}

// comparedRule has the state of a rule for each version, in the order of the versions.
type comparedRule struct {
	Rule   *ruleText
	States []comparedState
}

type comparedState struct {
	ruleState
	Version string
}

// versionsRead is the data of the versions of a service.
type versionsRead struct {
	shown    []*assay.ServiceRow // with their score history, the one last seen first
	counted  int
	compared []*assay.ServiceRow // beside the one of the page
	states   [][]score.RuleState // of those that are compared, nil for one that has gone
}

// readVersions reads the versions of a service and the states of their rules, for the selected versions or else for
// those last seen.
func (q *request) readVersions(ctx context.Context, own *assay.Service, chosen []string, c assay.SeriesRange) (versionsRead, error) {
	var read versionsRead
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		read.shown, err = q.cfg.ServiceLists.FindServiceVersions(ctx, q.organization(), own.ServiceKey, c, shownVersions)
		return err
	})
	reads.Go(func() error {
		counted, err := q.cfg.ServiceLists.FindServiceVersions(ctx, q.organization(), own.ServiceKey, assay.SeriesRange{}, countedVersions+1)
		if err != nil {
			return err
		}
		read.counted = len(counted)
		for _, v := range counted {
			if v.ID != own.ID && len(read.compared) < comparedVersions-1 && (len(chosen) == 0 || slices.Contains(chosen, v.ID)) {
				read.compared = append(read.compared, v)
			}
		}
		read.states = make([][]score.RuleState, len(read.compared))
		states, ctx := errgroup.WithContext(ctx)
		for i, v := range read.compared {
			states.Go(func() (err error) {
				read.states[i], err = q.cfg.States.RuleStates(ctx, q.organization(), v.ID)
				if assay.ErrorCode(err) == assay.CodeServiceNotFound {
					return nil
				}
				return err
			})
		}
		return states.Wait()
	})
	err := reads.Wait()
	return read, err
}

// ownRow is the service of the page as a list of versions shows it.
func ownRow(own *assay.Service, history []*assay.Score, active []*assay.Insight) *assay.ServiceRow {
	row := &assay.ServiceRow{Service: *own, Series: thinned(pointsOf(history), sparkPoints)}
	for _, i := range active {
		if r, ok := catalog.ByInsightType(i.Type); ok {
			row.Active.Add(r.Info().Impact)
		}
	}
	return row
}

// versions returns the comparison of versions. It always includes the version of the page, whose rule states are
// passed as an argument.
func (q *request) versions(read versionsRead, own *assay.Service, rules []ruleState, ownRow *assay.ServiceRow, c assay.SeriesRange) versionsPart {
	var part versionsPart
	isOwn := func(r *assay.ServiceRow) bool { return r.ID == own.ID }
	if !slices.ContainsFunc(read.shown, isOwn) {
		read.shown = append(read.shown[:min(len(read.shown), shownVersions-1)], ownRow)
	}
	if len(read.shown) < 2 {
		return part
	}
	part.Total, part.More = min(read.counted, countedVersions), read.counted > countedVersions
	for _, r := range serviceRows(read.shown, c) {
		row := versionRow{serviceRow: r, Own: r.ID == own.ID}
		row.Compared = slices.ContainsFunc(read.compared, func(v *assay.ServiceRow) bool { return v.ID == r.ID })
		part.Rows = append(part.Rows, row)
	}
	part.Compare = q.compare(read, own, rules)
	return part
}

// compare compares the states of rules for versions. The version of the page comes first.
func (q *request) compare(read versionsRead, own *assay.Service, rules []ruleState) *comparison {
	c := &comparison{Versions: []*assay.Service{own}}
	byRule := make([]map[*ruleText]ruleState, 0, len(read.compared))
	for i, v := range read.compared {
		if read.states[i] == nil {
			continue
		}
		states := make(map[*ruleText]ruleState, len(read.states[i]))
		for _, s := range read.states[i] {
			states[q.rules[s.Rule]] = q.stateOf(s)
		}
		c.Versions, byRule = append(c.Versions, &v.Service), append(byRule, states)
	}
	if len(byRule) == 0 {
		return nil
	}
	for _, first := range rules {
		rule := comparedRule{Rule: first.Rule, States: []comparedState{{first, versionText(own)}}}
		same := true
		for i, states := range byRule {
			state := states[first.Rule]
			rule.States = append(rule.States, comparedState{state, versionText(c.Versions[i+1])})
			same = same && state.State == first.State
		}
		if same {
			c.Same = append(c.Same, rule)
		} else {
			c.Differ = append(c.Differ, rule)
		}
	}
	return c
}

// versionText returns the version of a service as plain text, for places without elements, such as titles.
func versionText(s *assay.Service) string {
	if s.Version == "" {
		return "none"
	}
	return plain(s.Version)
}
