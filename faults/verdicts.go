// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/score"
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
	for _, service := range keys(v, want) {
		for _, rule := range keys(v[service], want[service]) {
			if got, want := v[service][rule], want[service][rule]; got != want {
				lines = append(lines, fmt.Sprintf("%s: %s failed %d of %d times, without faults %d of %d", service, rule, got.Failed, got.Observed, want.Failed, want.Observed))
			}
		}
	}
	return lines
}

// FactStore is what is read of a store.
type FactStore interface {
	FindOrganizations(ctx context.Context) ([]*assay.Organization, error)
	UnscoredServices(ctx context.Context, organizationID string, all bool) ([]string, error)
	ClaimCounts(ctx context.Context, organizationID string, rule catalog.Rule, since delta.Bucket) (map[string]delta.ClaimCount, error)
	Facts(ctx context.Context, organizationID string, serviceIDs []string, since delta.Bucket) ([]*delta.Facts, error)
}

// ReadVerdicts reads the verdicts of a store. They are of one moment if nobody writes
// to it.
func ReadVerdicts(ctx context.Context, s FactStore) (Verdicts, error) {
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
		claims := make(map[string]score.Claims)
		for _, rule := range []catalog.Rule{catalog.RES002, catalog.MET003, catalog.MET004} {
			counts, err := s.ClaimCounts(ctx, o.ID, rule, 0)
			if err != nil {
				return nil, err
			}
			for id, c := range counts {
				if claims[id] == nil {
					claims[id] = make(score.Claims)
				}
				claims[id][rule] = c
			}
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
			for r, c := range score.Verdicts(f, claims[f.Service.ID]) {
				if c != (delta.Count{}) {
					rules[catalog.Rule(r).ID()] = Verdict{c.Observed, c.Failed}
				}
			}
			all[o.Name+"/"+f.Service.Name] = rules
		}
	}
	return all, nil
}
