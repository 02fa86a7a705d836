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

// Verdicts are the counts of evaluations and failures of each rule in a store, by "organization/service" and
// rule id. Unlike a score, they reveal a single trace that was evaluated twice.
type Verdicts map[string]map[string]Verdict

// Verdict holds the counts of a rule.
type Verdict struct {
	Observed, Failed uint64
}

// Differences returns the differences between v and want.
func (v Verdicts) Differences(want Verdicts) (lines []string) {
	for _, service := range keys(v, want) {
		for _, rule := range keys(v[service], want[service]) {
			if got, want := v[service][rule], want[service][rule]; got != want {
				lines = append(lines, fmt.Sprintf("%s: %s failed %d of %d times, want %d of %d", service, rule, got.Failed, got.Observed, want.Failed, want.Observed))
			}
		}
	}
	return lines
}

// FactStore is the part of a store that ReadVerdicts reads.
type FactStore interface {
	FindOrganizations(ctx context.Context) ([]*assay.Organization, error)
	UnscoredServices(ctx context.Context, organizationID string, all bool) ([]string, error)
	ClaimCounter(organizationID string, rule catalog.Rule, since delta.Bucket) delta.ClaimCounter
	Facts(ctx context.Context, organizationID string, serviceIDs []string, since delta.Bucket) ([]*delta.Facts, error)
}

// ReadVerdicts reads the verdicts of a store. They are consistent only while no process writes to it.
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
		for _, rule := range catalog.Claiming(catalog.Instances, catalog.Definitions) {
			counts, err := delta.CountClaims(ctx, s.ClaimCounter(o.ID, rule, 0))
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
			return nil, errors.New("a service disappeared during the read")
		}
		for _, f := range facts {
			rules := make(map[string]Verdict)
			for r, c := range f.Verdicts(claims[f.Service.ID]) {
				if c != (delta.Count{}) {
					rules[catalog.Rule(r).ID()] = Verdict{c.Observed, c.Failed}
				}
			}
			all[o.Name+"/"+f.Service.Name] = rules
		}
	}
	return all, nil
}
