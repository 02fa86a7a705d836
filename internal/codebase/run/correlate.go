// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"assay"
	"assay/internal/review"
	"assay/internal/review/check"
	"assay/internal/rules/catalog"
)

// Telemetry is the input of the correlation. Stores implement it.
type Telemetry interface {
	assay.ServiceStore
	assay.InsightStore
	assay.UsageStore
}

// Limits of a correlation.
const (
	maxServices        = 10_000
	maxInsights        = 10_000
	telemetryPage      = 500
	maxLinkedInsights  = 20
	maxComparisons     = 1_000_000 // comparisons of a finding with an insight, each with up to 20 names
	raisingShare       = 0.5       // share of failing observations that raises the severity of a finding
	vcsURL             = "vcs.repository.url.full"
	resourceAttributes = "resource_attributes" // key of evidence: resource attributes of an example, as JSON
)

// absolute are the rules that a service passes or fails as a whole. If the services pass all rules of a finding, their
// telemetry refutes the finding.
var absolute = []string{"RES-001", "RES-005", "RES-006", "RES-007", "SDK-001"}

// evidence is an open insight with the names in it.
type evidence struct {
	id         string
	rule       string
	service    string // name
	serviceID  string
	share      float64 // of the observations that fail the rule
	attributes []string
	metrics    []string
	spans      []string
	vcs        string // URL of the repository in the resource attributes
}

// telemetry is the services and open insights of an organization.
type telemetry struct {
	insights []evidence
	services map[string][]*assay.Service // by name; all versions and environments

	byService map[string][]*evidence // by name of the service, built on first use
}

// of returns the open insights of a service.
func (t *telemetry) of(service string) []*evidence {
	if t.byService == nil {
		t.byService = make(map[string][]*evidence)
		for i := range t.insights {
			e := &t.insights[i]
			t.byService[e.service] = append(t.byService[e.service], e)
		}
	}
	return t.byService[service]
}

// readTelemetry reads the services and open insights of an organization.
func readTelemetry(ctx context.Context, from Telemetry, organizationID string) (*telemetry, error) {
	t := &telemetry{services: map[string][]*assay.Service{}}
	for offset := 0; offset < maxServices; offset += telemetryPage {
		page, total, err := from.FindServices(ctx, organizationID, assay.Page{Limit: telemetryPage, Offset: offset})
		if err != nil {
			return nil, err
		}
		for _, s := range page {
			t.services[s.Name] = append(t.services[s.Name], s)
		}
		if offset+len(page) >= total {
			break
		}
	}
	for offset := 0; offset < maxInsights; offset += telemetryPage {
		page, total, err := from.FindInsights(ctx, assay.InsightFilter{
			OrganizationID: organizationID, Statuses: []assay.InsightStatus{assay.InsightActive}, Page: assay.Page{Limit: telemetryPage, Offset: offset},
		})
		if err != nil {
			return nil, err
		}
		for _, i := range page {
			t.insights = append(t.insights, newEvidence(i))
		}
		if offset+len(page) >= total {
			break
		}
	}
	return t, nil
}

func newEvidence(i *assay.Insight) evidence {
	e := evidence{id: i.ID, service: i.Service.Name, serviceID: i.Service.ID}
	if r, ok := catalog.ByInsightType(i.Type); ok {
		e.rule = r.ID()
	}
	if failed, observed, ok := assay.FailureCounts(i.Attributes); ok && observed > 0 {
		e.share = min(float64(failed)/float64(observed), 1)
	}
	e.attributes = append(texts(i.Attributes["attribute_keys"]), texts(i.Attributes["discouraged_attributes"])...)
	if missing, _ := i.Attributes["missing_attribute"].(string); missing != "" {
		e.attributes = append(e.attributes, strings.Split(missing, ", ")...)
	}
	var places []struct {
		Where string `json:"where"`
	}
	if text, _ := i.Attributes["findings"].(string); json.Unmarshal([]byte(text), &places) == nil {
		for _, p := range places {
			if _, key, ok := strings.Cut(p.Where, ": "); ok {
				e.attributes = append(e.attributes, key)
			}
		}
	}
	e.metrics, e.spans = texts(i.Attributes["metric_names"]), texts(i.Attributes["span_names"])
	var resource map[string]any
	if text, _ := i.Attributes[resourceAttributes].(string); json.Unmarshal([]byte(text), &resource) == nil {
		e.vcs, _ = resource[vcsURL].(string)
	}
	return e
}

// texts decodes a list of evidence.
func texts(v any) (all []string) {
	text, _ := v.(string)
	_ = json.Unmarshal([]byte(text), &all) // evidence of another form has no list
	return all
}

// servicesOf returns the services whose telemetry a repository sends: the services that a user chose, or else
// the services that the code names and the services whose resources name the repository.
func (t *telemetry) servicesOf(repo *assay.Repository, named []string) []string {
	if len(repo.Settings.Services) > 0 {
		return repo.Settings.Services
	}
	all := slices.Clone(named)
	for i := range t.insights {
		if e := &t.insights[i]; e.vcs != "" && sameURL(e.vcs, repo.URL) {
			all = append(all, e.service)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// sameURL reports whether two clone URLs are equal, ignoring scheme, user, case, trailing slashes and the suffix .git.
func sameURL(a, b string) bool {
	plain := func(s string) string {
		if _, rest, ok := strings.Cut(s, "://"); ok {
			s = rest
		}
		if _, rest, ok := strings.Cut(s, "@"); ok {
			s = rest
		}
		return strings.ToLower(strings.TrimSuffix(strings.TrimRight(s, "/"), ".git"))
	}
	return plain(a) == plain(b)
}

// services are the services whose telemetry a repository sends. They may be all services of the organization.
type services struct {
	names    []string
	insights map[string][]*evidence // of the services, by rule
	passed   map[string]bool        // absolute rules: whether all of the services pass them
}

func (t *telemetry) newServices(names ...string) *services {
	s := &services{names, map[string][]*evidence{}, map[string]bool{}}
	for _, name := range names {
		for _, e := range t.of(name) {
			s.insights[e.rule] = append(s.insights[e.rule], e)
		}
	}
	for _, rule := range absolute {
		s.passed[rule] = len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !t.passes(name, rule) })
	}
	return s
}

// passes reports whether all versions of a service pass a rule.
func (t *telemetry) passes(service, rule string) bool {
	versions := t.services[service]
	return len(versions) > 0 && !slices.ContainsFunc(versions, func(v *assay.Service) bool {
		return v.Score == nil || !slices.Contains(v.Score.EvaluatedRuleIDs, rule) || slices.Contains(v.Score.FailedRuleIDs, rule)
	})
}

// correlation joins the findings of a report to telemetry. Its work is linear in the findings, the insights and the
// services, with at most maxComparisons comparisons.
type correlation struct {
	*telemetry
	sent  *services            // services whose telemetry the repository sends
	named map[string]*services // for findings that name their service, by name
	most  int                  // maximum comparisons of a finding
}

// newCorrelation returns the correlation for a number of findings with the telemetry of the named services.
func (t *telemetry) newCorrelation(findings int, sent ...string) *correlation {
	return &correlation{t, t.newServices(sent...), map[string]*services{}, maxComparisons / max(findings, 1)}
}

// join is the result of the correlation of a finding.
type join struct {
	service  string
	insights []string
	severity check.Severity
	note     string // a sentence for the summary
}

// correlate joins a finding to the insights that confirm it, and adjusts its severity. The only error is that of the
// context.
func (c *correlation) correlate(ctx context.Context, f *review.Finding) (join, error) {
	var names check.Names
	if f.Detail != nil {
		names = f.Detail.Names
	}
	sent := c.sent
	if names.Service != "" {
		if sent = c.named[names.Service]; sent == nil {
			sent = c.newServices(names.Service)
			c.named[names.Service] = sent
		}
	}
	j := join{severity: f.Severity}
	if len(sent.names) == 1 {
		j.service = sent.names[0]
	}
	share := 0.0
	var about *subject
	left := c.most
	for _, rule := range f.Rules {
		for _, e := range sent.insights[rule] {
			if ctx.Err() != nil {
				return j, context.Cause(ctx)
			}
			if left--; left < 0 {
				break
			}
			if about == nil {
				about = newSubject(names)
			}
			if !e.names(about) {
				continue
			}
			if len(j.insights) < maxLinkedInsights {
				j.insights = append(j.insights, e.id)
			}
			if e.share >= share {
				share = e.share
				j.service = e.service
			}
		}
	}
	at := slices.Index(check.Severities, f.Severity)
	switch {
	case at < 0:
	case len(j.insights) > 0:
		if at > 0 && (share >= raisingShare || f.Severity == check.Suggestion) {
			j.severity = check.Severities[at-1]
		}
	case sent.refute(f):
		j.severity = check.Suggestion
		j.note = "The telemetry of the service has it."
	}
	return j, nil
}

// subject is the names in a finding, prepared for the comparison with many insights.
type subject struct {
	check.Names
	span []string // the constant parts of SpanName
}

// variable matches a placeholder in the name of a span.
var variable = regexp.MustCompile(`(?:\*|\{[^{}]*\}|%[a-z])+`)

func newSubject(n check.Names) *subject {
	return &subject{n, variable.Split(check.Cut(n.SpanName, check.MaxName), -1)}
}

// names reports whether evidence has a name of the subject of a finding. Evidence without names matches every finding
// of the service.
func (e *evidence) names(s *subject) bool {
	matched := true
	for _, c := range []struct {
		name string
		list []string
	}{{s.AttributeKey, e.attributes}, {s.MetricName, e.metrics}} {
		if c.name == "" || len(c.list) == 0 {
			continue
		}
		if slices.Contains(c.list, c.name) {
			return true
		}
		matched = false
	}
	if s.SpanName != "" && len(e.spans) > 0 {
		if slices.ContainsFunc(e.spans, func(name string) bool { return matchParts(name, s.span) }) {
			return true
		}
		matched = false
	}
	return matched
}

// matchParts reports whether a name consists of the parts in order, with any text between them. It takes linear time.
func matchParts(name string, parts []string) bool {
	last := len(parts) - 1
	name, ok := strings.CutPrefix(name, parts[0])
	if last == 0 {
		return ok && name == ""
	}
	for _, p := range parts[1:last] {
		if ok {
			_, name, ok = strings.Cut(name, p)
		}
	}
	return ok && strings.HasSuffix(name, parts[last])
}

// refute reports whether all services pass all rules of a finding.
func (s *services) refute(f *review.Finding) bool {
	return len(f.Rules) > 0 && !slices.ContainsFunc(f.Rules, func(rule string) bool { return !s.passed[rule] })
}
