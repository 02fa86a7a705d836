// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"time"

	"assay"
	"assay/internal/store/connpool"
)

// StartOnboarding implements assay.CodebaseStore.
func (q *Queries) StartOnboarding(ctx context.Context, organizationID string) error {
	return q.updateOrganization(ctx, "start the onboarding", organizationID, func(tx Tx, org int64, now time.Time) error {
		_, err := exec(ctx, tx, `INSERT INTO onboarding (org, started_at) VALUES ($1, $2) ON CONFLICT (org) DO NOTHING`, org, Micros(now))
		return err
	})
}

// SaveOnboardingState implements assay.CodebaseStore.
func (q *Queries) SaveOnboardingState(ctx context.Context, s *assay.OnboardingState) error {
	if err := checkSizes("onboarding state", assay.MaxCodeTextBytes, s.Provider, s.Verifier, s.CreatedBy); err != nil {
		return err
	}
	return q.updateOrganization(ctx, "save an onboarding state", s.OrganizationID, func(tx Tx, org int64, _ time.Time) error {
		b := new(Batch)
		b.Exec(`DELETE FROM onboarding_states WHERE hash IN (
			SELECT hash FROM onboarding_states WHERE org = $1 ORDER BY expires_at DESC, hash`+noLimit+` OFFSET $2)`, org, assay.MaxOnboardingStates-1)
		b.Exec(`INSERT INTO onboarding_states (hash, org, provider, verifier, created_by, writable, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			s.Hash[:], org, Text(s.Provider), Text(s.Verifier), Text(s.CreatedBy), flag(s.Write), Micros(s.ExpiresAt))
		return q.conflict(tx.Send(ctx, b), "an onboarding state with this hash exists")
	})
}

const selectState = `SELECT o.id, s.provider, s.verifier, s.created_by, s.writable, s.expires_at
	FROM onboarding_states s JOIN organizations o ON o.org = s.org WHERE s.hash = $1 AND s.expires_at > $2`

func stateColumns(s *assay.OnboardingState, write *int64) []any {
	return []any{(*ID)(&s.OrganizationID), (*Text)(&s.Provider), (*Text)(&s.Verifier), (*Text)(&s.CreatedBy), write, (*Time)(&s.ExpiresAt)}
}

func errNoState() error { return assay.Errorf(assay.CodeNotFound, "no such onboarding state") }

// OnboardingState implements assay.CodebaseStore.
func (q *Queries) OnboardingState(ctx context.Context, hash [32]byte, now time.Time) (*assay.OnboardingState, error) {
	return one(ctx, q, connpool.Pages, "find an onboarding state", errNoState, func(r Row) (*assay.OnboardingState, error) {
		s := &assay.OnboardingState{Hash: hash}
		var write int64
		err := r.Scan(stateColumns(s, &write)...)
		s.Write = write != 0
		return s, err
	}, selectState, hash[:], Micros(now))
}

// TakeOnboardingState implements assay.CodebaseStore.
func (q *Queries) TakeOnboardingState(ctx context.Context, hash [32]byte, now time.Time) (*assay.OnboardingState, error) {
	var s *assay.OnboardingState
	err := q.engine.Update(ctx, connpool.Pages, "take an onboarding state", func(tx Tx) error {
		s = &assay.OnboardingState{Hash: hash}
		var write int64
		if err := need(ctx, tx, errNoState, stateColumns(s, &write), selectState, hash[:], Micros(now)); err != nil {
			return err
		}
		s.Write = write != 0
		// Another transaction may have deleted it since.
		return change(ctx, tx, errNoState, `DELETE FROM onboarding_states WHERE hash = $1`, hash[:])
	})
	return result(s, err)
}

// CompleteOnboarding implements assay.CodebaseStore.
func (q *Queries) CompleteOnboarding(ctx context.Context, organizationID string, ids []string, limit int) (n int, err error) {
	err = q.updateOrganization(ctx, "complete the onboarding", organizationID, func(tx Tx, org int64, now time.Time) error {
		changed, err := exec(ctx, tx, `INSERT INTO onboarding (org, started_at, completed_at) VALUES ($1, $2, $2)
			ON CONFLICT (org) DO UPDATE SET completed_at = excluded.completed_at WHERE onboarding.completed_at = 0`, org, Micros(now))
		if err != nil {
			return err
		}
		if changed == 0 {
			return assay.Errorf(assay.CodeConflict, "the onboarding is completed")
		}
		n, err = q.activate(ctx, tx, org, ids, true, limit)
		return err
	})
	return result(n, err)
}

// Onboarding implements assay.CodebaseStore.
func (q *Queries) Onboarding(ctx context.Context, organizationID string) (string, error) {
	var started, completed time.Time
	err := q.engine.View(ctx, connpool.Pages, "read the onboarding", func(b *Batch) {
		started = time.Time{}
		b.Query(func(r Row) error { return r.Scan((*Time)(&started), (*Time)(&completed)) },
			`SELECT b.started_at, b.completed_at FROM onboarding b JOIN organizations o ON o.org = b.org WHERE o.id = $1`, ID(organizationID))
	})
	switch {
	case err != nil:
		return "", err
	case started.IsZero():
		return "not_started", nil
	case completed.IsZero():
		return "in_progress", nil
	default:
		return "completed", nil
	}
}
