// SPDX-License-Identifier: Apache-2.0

package score

import (
	"maps"
	"reflect"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// minUpdate is the minimum interval between updates of an insight's evidence.
const minUpdate = time.Minute

// insights returns the insights of a service that are new or changed at now. later is when a deferred update of
// evidence is due, or zero. While expiring, evidence that is stored does not change: its counts may include the time
// before the window, and its lists do not.
func insights(f *delta.Facts, v *[catalog.Count]delta.Count, claims Claims, expiring bool, now time.Time) (changed []*assay.Insight, later time.Time) {
	stored := make(map[string]*assay.Insight, len(f.Insights))
	for _, i := range f.Insights {
		stored[i.Type] = i
	}
	for r := range catalog.Rule(catalog.Count) {
		old := stored[r.Info().Name]
		if v[r].Failed == 0 || v[r].Observed == 0 {
			if i := settled(v[r], old, now); i != nil {
				changed = append(changed, i)
			}
			continue
		}
		i := failing(r, f, v[r], claims, old, now)
		switch {
		case i == nil:
		case old != nil && i.Status == old.Status && (expiring || recent(now.Sub(old.UpdatedAt))):
			due := old.UpdatedAt.Add(minUpdate)
			if expiring {
				due = now.Add(minUpdate)
			}
			if later.IsZero() || due.Before(later) {
				later = due
			}
		default:
			changed = append(changed, i)
		}
	}
	return changed, later
}

// recent reports whether an update of that age is recent. After the clock has been set back, none is.
func recent(age time.Duration) bool { return age >= 0 && age < minUpdate }

// settled returns the update of an insight without failures in the window, or nil for no change.
func settled(c delta.Count, old *assay.Insight, now time.Time) *assay.Insight {
	if old == nil || old.Status == assay.InsightArchived {
		return nil
	}
	i := *old
	i.Attributes = make(map[string]any, len(old.Attributes))
	maps.Copy(i.Attributes, old.Attributes)
	i.Attributes["violations_total"] = int64(0)
	if i.Status == assay.InsightMuted {
		if sameAttributes(i.Attributes, old.Attributes) { // updated before
			return nil
		}
	} else {
		i.Status = assay.InsightArchived
	}
	i.Attributes["observations_total"] = int64(c.Observed)
	i.UpdatedAt = now
	return &i
}

// failing returns the new or updated insight of a failing rule, or nil for no change.
func failing(r catalog.Rule, f *delta.Facts, c delta.Count, claims Claims, old *assay.Insight, now time.Time) *assay.Insight {
	i := assay.Insight{
		ID:             delta.InsightID(f.Service.ID, r.Info().Name),
		OrganizationID: f.Service.OrganizationID,
		Service:        assay.Service{ID: f.Service.ID, ServiceKey: f.Service.ServiceKey},
		Type:           r.Info().Name,
		Status:         assay.InsightActive,
		DetectedAt:     now,
		CreatedAt:      now,
		UpdatedAt:      now,
		Attributes:     attributes(r, f, c, claims),
	}
	i.TraceID, i.TelemetryAt = exampleOf(f.Examples[r])
	if i.TelemetryAt.IsZero() {
		i.TelemetryAt = f.Service.LastSeenAt
	}
	if old == nil {
		return &i
	}
	i.CreatedAt, i.DetectedAt, i.MuteReason = old.CreatedAt, old.DetectedAt, old.MuteReason
	switch old.Status {
	case assay.InsightMuted:
		i.Status = assay.InsightMuted
	case assay.InsightArchived:
		i.DetectedAt = now
	}
	if i.Status == old.Status && i.TraceID == old.TraceID && i.TelemetryAt.Equal(old.TelemetryAt) && sameAttributes(i.Attributes, old.Attributes) {
		return nil
	}
	return &i
}

// sameAttributes compares evidence. The numbers may have been decoded from JSON.
func sameAttributes(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		w, ok := b[k]
		if !ok || !reflect.DeepEqual(number(v), number(w)) {
			return false
		}
	}
	return true
}

func number(v any) any {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case int:
		return float64(n)
	default:
		return v
	}
}
