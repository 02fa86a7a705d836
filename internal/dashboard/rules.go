// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"html/template"
	"net/http"
	"strings"

	"assay"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
	"assay/internal/score"
)

// ruleText is a rule, or an insight type without one, with its texts as HTML.
type ruleText struct {
	ID     string // "" for a type that does not affect the score
	Name   string // of the insight type
	Title  string
	Slug   string // as addresses name it: the rule's id, else the type's name
	Impact assay.Impact
	Signal assay.Signal
	Target string

	Applies, Criterion     template.HTML
	Description, Rationale template.HTML
	Advice                 template.HTML // shown before the parts
	Parts                  []section     // for the SDK and for the Collector
	Choices                []template.HTML
}

// ruleTexts returns the catalog, in its order.
func ruleTexts() []*ruleText {
	var all []*ruleText
	for _, r := range catalog.All() {
		i := r.Info()
		t := &ruleText{
			ID: i.ID, Name: i.Name, Title: i.DisplayName, Slug: i.ID, Impact: i.Impact, Signal: i.Signal, Target: i.Target,
			Applies: markdown(i.Applies), Criterion: markdown(i.Criterion),
			Description: markdown(i.Description), Rationale: markdown(i.Rationale),
		}
		t.Slug = cmp.Or(t.Slug, i.Name)
		t.Advice, t.Parts = sections(i.Remediation)
		t.Choices = lists.Map(i.Choices, markdown)
		all = append(all, t)
	}
	return all
}

// generalChoices returns the decisions that concern every rule.
func generalChoices() []template.HTML {
	return lists.Map(catalog.GeneralChoices(), markdown)
}

// ruleOf returns the texts of an insight type. One that a newer replica wrote during
// an upgrade is shown with the data that it has.
func (h *Handler) ruleOf(insightType string) *ruleText {
	if r, ok := catalog.ByInsightType(insightType); ok {
		return h.rules[r]
	}
	return &ruleText{Name: insightType, Title: insightType, Impact: assay.ImpactLow, Signal: assay.SignalTrace}
}

// ruleBySlug returns nil for an unknown slug.
func (h *Handler) ruleBySlug(slug string) *ruleText {
	for _, r := range h.rules {
		if strings.EqualFold(r.Slug, slug) {
			return r
		}
	}
	return nil
}

// rulesPage is the catalog.
type rulesPage struct {
	Groups  []ruleGroup
	Scored  int
	Choices []template.HTML // that concern every rule
}

// ruleGroup is the rules of one signal, or those that apply to every signal.
type ruleGroup struct {
	Title string
	Rows  []ruleRow
}

// ruleRow is a rule and in how many services it fails.
type ruleRow struct {
	*ruleText
	Services int
}

// groupTitles are the groups by the prefix of the rules' ids.
var groupTitles = []struct{ prefix, title string }{
	{"RES", "Resources"}, {"SPA", "Spans"}, {"MET", "Metrics"}, {"LOG", "Logs"}, {"SDK", "SDK"}, {"", "Not part of the score"},
}

func (h *Handler) ruleList(q *request) error {
	counts, err := q.cfg.Overviews.FindInsightTypeCounts(q.ctx, q.organization())
	if err != nil {
		return err
	}
	active := map[string]int{}
	for _, c := range counts {
		active[c.Type] = c.Active
	}
	page := rulesPage{Scored: catalog.Scored, Choices: h.choices}
	for _, g := range groupTitles {
		group := ruleGroup{Title: g.title}
		for _, r := range h.rules {
			if prefix, _, _ := strings.Cut(r.ID, "-"); prefix == g.prefix {
				group.Rows = append(group.Rows, ruleRow{r, active[r.Name]})
			}
		}
		page.Groups = append(page.Groups, group)
	}
	return q.render(http.StatusOK, "rules", view{Title: "Rules", Section: "rules", Live: liveSeconds, Data: page})
}

// rulePage is one rule.
type rulePage struct {
	*ruleText
	Services int    // with an active insight
	Gain     string // points of the organization's score, "" where it gains none
	Insights string // address of its insights
}

func (h *Handler) rule(q *request) error {
	r := h.ruleBySlug(q.r.PathValue("id"))
	if r == nil {
		return assay.Errorf(assay.CodeNotFound, "no such rule")
	}
	counts, err := q.cfg.Overviews.FindInsightTypeCounts(q.ctx, q.organization())
	if err != nil {
		return err
	}
	groups, err := q.cfg.Overviews.FindScoreGroups(q.ctx, q.organization())
	if err != nil {
		return err
	}
	page := rulePage{ruleText: r, Insights: "/insights?" + ruleParam + "=" + r.Slug}
	for _, f := range score.Fixes(groups, counts) {
		if h.rules[f.Rule] != r {
			continue
		}
		page.Services = f.Services
		if r.ID != "" && f.Gain > 0 {
			page.Gain = points(f.Gain)
		}
	}
	title := r.Title
	if r.ID != "" {
		title = r.ID + " " + title
	}
	return q.render(http.StatusOK, "rule", view{Title: title, Section: "rules", Live: liveSeconds, Data: page})
}
