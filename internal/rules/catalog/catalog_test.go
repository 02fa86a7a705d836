// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// specified is the rule table of the specification and the insight types without
// a rule, written down a second time by hand.
var specified = []struct {
	rule   Rule
	id     string
	impact string
	weight int
	name   string
	signal string
}{
	{RES001, "RES-001", "Normal", 20, "missing_service_instance_id", "trace"},
	{RES002, "RES-002", "Important", 30, "duplicate_service_instance_id", "trace"},
	{RES003, "RES-003", "Important", 30, "missing_k8s_pod_uid", "trace"},
	{RES004, "RES-004", "Important", 30, "misplaced_attributes", "trace"},
	{RES005, "RES-005", "Critical", 40, "missing_service_name", "trace"},
	{RES006, "RES-006", "Normal", 20, "invalid_service_criticality", "trace"},
	{RES007, "RES-007", "Important", 30, "missing_deployment_environment", "trace"},
	{RES010, "RES-010", "Critical", 40, "sensitive_resource_data", "trace"},
	{SPA001, "SPA-001", "Normal", 20, "excessive_internal_spans", "trace"},
	{SPA002, "SPA-002", "Normal", 20, "orphan_spans", "trace"},
	{SPA003, "SPA-003", "Important", 30, "unbounded_span_names", "trace"},
	{SPA004, "SPA-004", "Important", 30, "client_root_spans", "trace"},
	{SPA005, "SPA-005", "Important", 30, "excessive_short_spans", "trace"},
	{SPA006, "SPA-006", "Critical", 40, "sensitive_span_data", "trace"},
	{MET001, "MET-001", "Important", 30, "unbounded_metric_attributes", "metric"},
	{MET002, "MET-002", "Important", 30, "missing_metric_unit", "metric"},
	{MET003, "MET-003", "Important", 30, "inconsistent_metric_unit", "metric"},
	{MET004, "MET-004", "Normal", 20, "inconsistent_histogram_buckets", "metric"},
	{MET005, "MET-005", "Normal", 20, "unit_in_metric_name", "metric"},
	{MET006, "MET-006", "Important", 30, "metric_named_like_attribute", "metric"},
	{MET007, "MET-007", "Normal", 20, "discouraged_metric_resource_attributes", "metric"},
	{MET008, "MET-008", "Critical", 40, "sensitive_metric_data", "metric"},
	{LOG001, "LOG-001", "Important", 30, "debug_logs_in_production", "log"},
	{LOG002, "LOG-002", "Important", 30, "missing_log_severity", "log"},
	{LOG003, "LOG-003", "Critical", 40, "sensitive_log_data", "log"},
	{SDK001, "SDK-001", "Low", 10, "unsupported_runtime", "trace"},
	{DefaultServiceName, "", "Important", 30, "default_service_name", "trace"},
	{DeprecatedAttributes, "", "Low", 10, "deprecated_attributes", "trace"},
	{QuotaExceeded, "", "Important", 30, "quota_exceeded", "trace"},
}

func TestTableIsTheSpecification(t *testing.T) {
	require.Len(t, specified, Count)
	seen := make(map[Rule]bool)
	for _, want := range specified {
		t.Run(want.name, func(t *testing.T) {
			require.False(t, seen[want.rule], "index used twice")
			seen[want.rule] = true

			info := want.rule.Info()
			require.NotNil(t, info)
			require.Equal(t, want.id, info.ID)
			require.Equal(t, want.id, want.rule.ID())
			require.Equal(t, want.name, info.Name)
			require.Equal(t, want.impact, string(info.Impact))
			require.Equal(t, want.weight, info.Impact.Weight())
			require.Equal(t, want.signal, string(info.Signal))
			require.NotEmpty(t, info.DisplayName)
			require.NotEmpty(t, info.Target)
			require.NotEmpty(t, info.Applies)
			require.NotEmpty(t, info.Criterion)
		})
	}
	require.Len(t, seen, Count)
}

func TestOrder(t *testing.T) {
	all := All()
	require.Len(t, all, Count)
	var ids []string
	for i, r := range all {
		require.Equal(t, Rule(i), r)
		require.Equal(t, i < Scored, r.ID() != "", "scored rules come first: %d", i)
		if i < Scored {
			ids = append(ids, r.ID())
		}
	}
	require.True(t, slices.IsSorted(ids), "%v", ids)

	all[0] = DeprecatedAttributes
	require.Equal(t, LOG001, All()[0], "All must not share its slice")
}

func TestLookups(t *testing.T) {
	for _, r := range All() {
		byName, ok := ByInsightType(r.Info().Name)
		require.True(t, ok)
		require.Equal(t, r, byName)
		if r < Scored {
			byID, ok := ByID(r.ID())
			require.True(t, ok)
			require.Equal(t, r, byID)
		}
	}
	for _, id := range []string{"", "RES-008", "RES-009", "RES-1", "res-001", "missing_service_name"} {
		_, ok := ByID(id)
		require.False(t, ok, "%q", id)
	}
	for _, name := range []string{"", "RES-001", "general", "Missing_Service_Name"} {
		_, ok := ByInsightType(name)
		require.False(t, ok, "%q", name)
	}
}

func TestOutOfRange(t *testing.T) {
	for _, r := range []Rule{Count, 255} {
		require.Nil(t, r.Info())
		require.Empty(t, r.ID())
		require.Empty(t, r.TypeID())
	}
}

func TestTypeIDs(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range All() {
		id, err := uuid.Parse(r.TypeID())
		require.NoError(t, err)
		require.Equal(t, uuid.Version(5), id.Version())
		require.Equal(t, id.String(), r.TypeID())
		require.False(t, seen[r.TypeID()])
		seen[r.TypeID()] = true
	}
	// Clients store these: they may never change.
	require.Equal(t, "4c20c29d-2651-56e6-bc0e-e15cd0c3ff11", LOG001.TypeID())
	require.Equal(t, "fa0024ec-97f7-578d-ae9f-682cc18c5e86", DeprecatedAttributes.TypeID())
}
