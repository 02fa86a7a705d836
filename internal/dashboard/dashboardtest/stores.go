// SPDX-License-Identifier: Apache-2.0

package dashboardtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"assay"
	"assay/internal/assaytest/selection"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
)

// unavailable returns the error for reads: Err, or CodeNotFound for another organization.
func (w *World) unavailable(organizationID string) error {
	if w.Err == nil && organizationID != w.Organization.ID {
		return assay.Errorf(assay.CodeNotFound, "no such organization")
	}
	return w.Err
}

// FindOrganizationByID returns the organization for its id.
func (w *World) FindOrganizationByID(_ context.Context, id string) (*assay.Organization, error) {
	if w.Err != nil {
		return nil, w.Err
	}
	if id != w.Organization.ID {
		return nil, assay.Errorf(assay.CodeNotFound, "no such organization")
	}
	o := w.Organization
	return &o, nil
}

// FindServiceByID returns a service.
func (w *World) FindServiceByID(_ context.Context, organizationID, id string) (*assay.Service, error) {
	if w.Err != nil {
		return nil, w.Err
	}
	row := w.row(id)
	if row == nil || organizationID != w.Organization.ID {
		return nil, assay.Errorf(assay.CodeServiceNotFound, "no such service")
	}
	return &row.Service, nil
}

// FindServiceRows implements assay.ServiceLister.
func (w *World) FindServiceRows(_ context.Context, f assay.ServiceFilter) ([]*assay.ServiceRow, int, error) {
	if err := w.unavailable(f.OrganizationID); err != nil {
		return nil, 0, err
	}
	found := selection.Services(w.Rows, &f)
	shown := lists.Map(selection.Page(found, f.Page), func(r *assay.ServiceRow) *assay.ServiceRow { return w.with(r, f.Series) })
	return shown, len(found), nil
}

// with returns a row with its series.
func (w *World) with(r *assay.ServiceRow, c assay.SeriesRange) *assay.ServiceRow {
	row := *r
	row.Series = nil
	if c.Points == 0 {
		return &row
	}
	for _, s := range w.history[r.ID] {
		if !s.CalculatedAt.Before(c.Start) && s.CalculatedAt.Before(c.End) {
			row.Series = append(row.Series, assay.ScorePoint{At: s.CalculatedAt, Value: s.Value})
		}
	}
	return &row
}

// FindServiceVersions implements assay.ServiceLister.
func (w *World) FindServiceVersions(_ context.Context, organizationID string, key assay.ServiceKey, c assay.SeriesRange, limit int) ([]*assay.ServiceRow, error) {
	if w.unavailable(organizationID) != nil {
		return nil, w.unavailable(organizationID)
	}
	var found []*assay.ServiceRow
	for _, r := range w.Rows {
		if r.Namespace == key.Namespace && r.Name == key.Name && r.Environment == key.Environment {
			found = append(found, w.with(r, c))
		}
	}
	slices.SortFunc(found, func(a, b *assay.ServiceRow) int { return b.LastSeenAt.Compare(a.LastSeenAt) })
	return found[:min(limit, len(found))], nil
}

// FindServiceGroups implements assay.ServiceLister. Pages of the dashboard do not use groups.
func (w *World) FindServiceGroups(context.Context, assay.ServiceGroupFilter) ([]*assay.ServiceGroup, int, error) {
	return nil, 0, nil
}

// FindEnvironments implements assay.ServiceLister.
func (w *World) FindEnvironments(_ context.Context, organizationID string, limit int) ([]string, error) {
	if w.unavailable(organizationID) != nil {
		return nil, w.unavailable(organizationID)
	}
	var all []string
	for _, r := range w.Rows {
		all = append(all, r.Environment)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(limit, len(all))], nil
}

// FindScoreGroups implements assay.OverviewStore with one group per service.
func (w *World) FindScoreGroups(_ context.Context, organizationID string) ([]assay.ScoreGroup, error) {
	if w.unavailable(organizationID) != nil {
		return nil, w.unavailable(organizationID)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var groups []assay.ScoreGroup
	for _, r := range w.Rows {
		s := r.Service.Score
		if s == nil {
			continue
		}
		g := assay.ScoreGroup{
			EvaluatedRuleIDs: s.EvaluatedRuleIDs, Services: 1, Categories: map[string]int{s.Category(): 1}, Failing: map[string]int{},
		}
		for _, id := range s.FailedRuleIDs {
			g.Failing[id] = 1
		}
		for _, i := range w.Found {
			if rule, ok := catalog.ByInsightType(i.Type); ok && i.Service.ID == r.ID && i.Status == assay.InsightMuted {
				delete(g.Failing, rule.ID())
			}
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// FindInsightTypeCounts implements assay.OverviewStore.
func (w *World) FindInsightTypeCounts(_ context.Context, organizationID string) ([]assay.InsightTypeCount, error) {
	if w.unavailable(organizationID) != nil {
		return nil, w.unavailable(organizationID)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := map[string]int{}
	for _, i := range w.Found {
		if i.Status == assay.InsightActive {
			counts[i.Type]++
		}
	}
	var all []assay.InsightTypeCount
	for t, n := range counts {
		all = append(all, assay.InsightTypeCount{Type: t, Active: n})
	}
	return all, nil
}

// FindOrganizationScores implements assay.OverviewStore.
func (w *World) FindOrganizationScores(_ context.Context, organizationID string, _ assay.SeriesRange) ([]assay.ScorePoint, error) {
	if err := w.unavailable(organizationID); err != nil || len(w.Rows) == 0 {
		return nil, err
	}
	var points []assay.ScorePoint
	for i := range w.history[w.Rows[0].ID] {
		p := assay.ScorePoint{At: w.history[w.Rows[0].ID][i].CalculatedAt}
		for _, r := range w.Rows {
			p.Value += w.history[r.ID][i].Value / float64(len(w.Rows))
		}
		points = append(points, p)
	}
	return points, nil
}

// ScoreHistory implements assay.OverviewStore.
func (w *World) ScoreHistory(_ context.Context, organizationID, serviceID string, since time.Time) ([]*assay.Score, error) {
	if err := w.unavailable(organizationID); err != nil {
		return nil, err
	}
	var found []*assay.Score
	for _, s := range w.history[serviceID] {
		if !s.CalculatedAt.Before(since) {
			found = append(found, s)
		}
	}
	return found, nil
}

// FindInsights implements assay.InsightStore.
func (w *World) FindInsights(_ context.Context, f assay.InsightFilter) ([]*assay.Insight, int, error) {
	if err := w.unavailable(f.OrganizationID); err != nil {
		return nil, 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	found := selection.Insights(w.Found, &f)
	return lists.Map(selection.Page(found, f.Page), func(i *assay.Insight) *assay.Insight { one := *i; return &one }), len(found), nil
}

// FindInsightByID implements assay.InsightStore.
func (w *World) FindInsightByID(_ context.Context, organizationID, id string) (*assay.Insight, error) {
	if w.Err != nil {
		return nil, w.Err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.Found {
		if i.ID == id && (organizationID == "" || organizationID == i.OrganizationID) {
			one := *i
			return &one, nil
		}
	}
	return nil, assay.Errorf(assay.CodeInsightNotFound, "no such insight")
}

// MuteInsight implements assay.InsightStore.
func (w *World) MuteInsight(_ context.Context, id, reason string) error {
	return w.set(id, assay.InsightMuted, reason)
}

// UnmuteInsight implements assay.InsightStore.
func (w *World) UnmuteInsight(_ context.Context, id string) error {
	return w.set(id, assay.InsightActive, "")
}

func (w *World) set(id string, status assay.InsightStatus, reason string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.Found {
		if i.ID == id {
			i.Status, i.MuteReason = status, reason
			return w.Err
		}
	}
	return assay.Errorf(assay.CodeInsightNotFound, "no such insight")
}

// LogVolume implements assay.LogVolumeReader.
func (w *World) LogVolume(_ context.Context, organizationID string, p assay.LogVolumePeriod) (*assay.LogVolume, error) {
	if w.unavailable(organizationID) != nil {
		return nil, w.unavailable(organizationID)
	}
	if w.Volume == nil {
		return &assay.LogVolume{Period: p, Start: Now.Add(-p.Duration()), End: Now}, nil
	}
	v := *w.Volume
	v.Period = p
	return &v, nil
}

// Analyze implements assay.Analyst.
func (w *World) Analyze(_ context.Context, organizationID string, limit int) (*assay.ServiceAnalytics, error) {
	if w.unavailable(organizationID) != nil {
		return nil, w.unavailable(organizationID)
	}
	a := w.Analytics
	a.Services = a.Services[:min(limit, len(a.Services))]
	return &a, nil
}

// Summarize implements assay.Summarizer.
func (w *World) Summarize(_ context.Context, i *assay.Insight) (*assay.InsightSummary, error) {
	if w.Err != nil {
		return nil, w.Err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Summary = &assay.InsightSummary{
		InsightID: i.ID, Model: "small-model-1", GeneratedAt: Now,
		Content: "**" + i.Service.Name + "** writes personal data into its telemetry. An `email` was found in the log body, and a card number beside it.\n\n" +
			"1. Rotate what was leaked.\n2. Log the account's id instead of the whole request.\n3. Add the redaction processor to the Collector until all instances run the fix.\n",
	}
	return w.Summary, nil
}

// CachedSummary implements dashboard.CachedSummaries.
func (w *World) CachedSummary(_ context.Context, i *assay.Insight) (*assay.InsightSummary, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Summary == nil || w.Summary.InsightID != i.ID {
		return nil, assay.Errorf(assay.CodeNotFound, "no summary")
	}
	return w.Summary, nil
}

// FindKeys implements assay.KeyManager.
func (w *World) FindKeys(_ context.Context, s *assay.Principal, p assay.Page) (*assay.APIKeyPage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.manages(s); err != nil {
		return nil, err
	}
	found := &assay.APIKeyPage{Keys: slices.Clone(w.APIKeys), Total: len(w.APIKeys)}
	for _, k := range found.Keys {
		if k.Live(Now) {
			found.Live++
		}
	}
	slices.SortStableFunc(found.Keys, func(a, b *assay.APIKey) int {
		if a, b := a.Live(Now), b.Live(Now); a != b {
			if a {
				return -1
			}
			return 1
		}
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	found.Keys = selection.Page(found.Keys, p)
	return found, nil
}

// FindKey implements assay.KeyManager.
func (w *World) FindKey(_ context.Context, s *assay.Principal, id string) (*assay.APIKey, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.manages(s); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(w.APIKeys, func(k *assay.APIKey) bool { return k.ID == id }); i >= 0 {
		return w.APIKeys[i], nil
	}
	return nil, assay.Errorf(assay.CodeNotFound, "no such key")
}

// manages returns an error if a caller may not manage keys.
func (w *World) manages(s *assay.Principal) error {
	if w.Err == nil && !s.Allows(assay.ScopeAdmin) {
		return assay.Errorf(assay.CodeForbidden, "the session does not have the scope admin")
	}
	return w.Err
}

// Preview implements assay.KeyManager.
func (w *World) Preview(k *assay.APIKey) string { return "assay_sk_" + k.ID + "_***" }

// CreateKey implements assay.KeyManager.
func (w *World) CreateKey(_ context.Context, s *assay.Principal, n assay.NewAPIKey) (*assay.APIKey, string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, scope := range n.Scopes {
		if !s.Allows(scope) {
			return nil, "", assay.Errorf(assay.CodeForbidden, "the session does not have the scope %s", scope)
		}
	}
	if len(n.Name) > assay.MaxAPIKeyName {
		return nil, "", assay.Invalid(map[string]string{"description": "is too long"})
	}
	id := fmt.Sprintf("new%03s", n.Once[len(assay.Session{}.Hash):])
	if slices.ContainsFunc(w.APIKeys, func(k *assay.APIKey) bool { return k.ID == id }) {
		return nil, "", assay.Errorf(assay.CodeConflict, "A key was already created from this form.")
	}
	k := &assay.APIKey{ID: id, OrganizationID: OrganizationID, Name: n.Name, Scopes: n.Scopes, CreatedAt: Now}
	if n.ExpiresIn > 0 {
		k.ExpiresAt = Now.Add(n.ExpiresIn)
	}
	w.APIKeys = append(w.APIKeys, k)
	return k, "assay_sk_" + k.ID + "_5f0e7c2b9a1d48367b6e0c1f2a3d4e5f", nil
}

// RevokeKey implements assay.KeyManager.
func (w *World) RevokeKey(_ context.Context, _ *assay.Principal, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, k := range w.APIKeys {
		if k.ID == id {
			revoked := *k
			revoked.RevokedAt = Now
			w.APIKeys[i] = &revoked
			return nil
		}
	}
	return assay.Errorf(assay.CodeNotFound, "no such key")
}
