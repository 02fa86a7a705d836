// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// Verdicts are how often each rule was asked in a store, and how often it failed, by
// "organization/service" and id of the rule. Unlike a score, they show a single trace
// that was judged twice.
type Verdicts map[string]map[string]Verdict

// Verdict is the outcome of a rule.
type Verdict struct {
	Observed, Failed uint64
}

// Differences tells where v is not what it has to be.
func (v Verdicts) Differences(want Verdicts) (lines []string) {
	services := maps.Clone(v)
	maps.Copy(services, want)
	for _, service := range slices.Sorted(maps.Keys(services)) {
		rules := make(map[string]Verdict)
		maps.Copy(rules, want[service])
		maps.Copy(rules, v[service])
		for _, rule := range slices.Sorted(maps.Keys(rules)) {
			if got, want := v[service][rule], want[service][rule]; got != want {
				lines = append(lines, fmt.Sprintf("%s: %s failed %d of %d times, without faults %d of %d", service, rule, got.Failed, got.Observed, want.Failed, want.Observed))
			}
		}
	}
	return lines
}

// FactStore is what is read of a store. Nobody else should have it open, or what is
// read is not of one moment.
type FactStore interface {
	FindOrganizations(ctx context.Context) ([]*assay.Organization, error)
	UnscoredServices(ctx context.Context, organizationID string, all bool) ([]string, error)
	Facts(ctx context.Context, organizationID string, serviceIDs []string, since delta.Bucket) ([]*delta.Facts, error)
	Journals(ctx context.Context) ([]string, error)
}

// ReadVerdicts reads the verdicts of a store, in which no trace may be open.
func ReadVerdicts(ctx context.Context, s FactStore) (Verdicts, error) {
	open, err := s.Journals(ctx)
	if err != nil {
		return nil, err
	}
	if len(open) != 0 {
		return nil, fmt.Errorf("traces are still open in %q", open)
	}
	organizations, err := s.FindOrganizations(ctx)
	if err != nil {
		return nil, err
	}
	all := make(Verdicts)
	for _, o := range organizations {
		ids, err := s.UnscoredServices(ctx, o.ID, true)
		if err != nil {
			return nil, err
		}
		facts, err := s.Facts(ctx, o.ID, ids, 0)
		if err != nil {
			return nil, err
		}
		if len(facts) != len(ids) {
			return nil, errors.New("a service went away while it was read")
		}
		for _, f := range facts {
			rules := make(map[string]Verdict)
			for r := range catalog.Rule(catalog.Count) {
				if c := f.Totals[r]; c != (delta.Count{}) {
					rules[r.ID()] = Verdict{c.Observed, c.Failed}
				}
			}
			all[o.Name+"/"+f.Service.Name] = rules
		}
	}
	return all, nil
}
