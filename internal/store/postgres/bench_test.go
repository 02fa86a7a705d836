// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

// open opens a store in a database of its own.
func open(t testing.TB, c Config) *Store {
	t.Helper()
	c.URL = migrated(t)
	s, err := Open(context.Background(), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func organization(t testing.TB, s *Store, name string) string {
	t.Helper()
	o := &assay.Organization{Name: name, Tier: assay.TierFree}
	require.NoError(t, s.CreateOrganization(context.Background(), o))
	return o.ID
}

// fillLists creates services and as many insights of each for an organization, without their facts.
func fillLists(t testing.TB, s *Store, organizationID string, services, insights int) {
	t.Helper()
	for _, statement := range []string{
		`INSERT INTO services (id, org, namespace, name, environment, version, first_seen_at, last_seen_at, created_at, updated_at, revision, tally)
			SELECT md5(org || '/' || n)::uuid, org, '', ('service-' || n % ($2 / 10))::bytea, ('env-' || n % 3)::bytea, ('1.' || n)::bytea, 1, 2, 3, 4, 1,
				convert_to(repeat('tally', 40), 'UTF8')
			FROM organizations, generate_series(1, $2::bigint) AS n WHERE id = $1 ORDER BY md5(org || '/' || n)`,
		`INSERT INTO service_counts SELECT org, $2 FROM organizations WHERE id = $1 ON CONFLICT (org) DO UPDATE SET n = excluded.n`,
	} {
		_, err := s.pool.Exec(context.Background(), statement, uuidOf(organizationID), services)
		require.NoError(t, err)
	}
	// In batches with separate times, like the scorer.
	for _, statement := range []string{
		`INSERT INTO insights (id, org, svc, rule, status, weight, signal, detected_at, created_at)
			SELECT md5(s.svc || '/' || r)::uuid, s.org, s.svc, r, 1 + (s.svc + r) % 100 / 90, 10 + r % 4 * 10, 1 + r % 3, 1000 * (s.svc / 500), 1000 * (s.svc / 500)
			FROM services s JOIN organizations o USING (org), generate_series(1, $2::bigint) AS r WHERE o.id = $1 ORDER BY s.svc, r`,
		`INSERT INTO evidence (svc, rule, id, org, status, weight, signal, created_at, updated_at, telemetry_at, trace_id, attributes)
			SELECT i.svc, i.rule, i.id, i.org, i.status, i.weight, i.signal, i.created_at, i.created_at + 7 * (i.svc % $2), 1, '0102030405060708090a0b0c0d0e0f10',
				'{"violations_total":1,"resource_attributes":"' || repeat('x', 500) || '"}'
			FROM insights i JOIN organizations o USING (org) WHERE o.id = $1 ORDER BY i.svc, i.rule`,
	} {
		_, err := s.pool.Exec(context.Background(), statement, uuidOf(organizationID), insights)
		require.NoError(t, err)
	}
	_, err := s.pool.Exec(context.Background(), `VACUUM ANALYZE`)
	require.NoError(t, err)
}

// BenchmarkPages compares pages of long lists, from either end and the middle, with a bare query for the same
// rows.
func BenchmarkPages(b *testing.B) {
	s := open(b, Config{})
	org := organization(b, s, "bench")
	began := time.Now()
	const services, insights = 10_000, 100_000
	fillLists(b, s, org, services, insights/services)
	b.Logf("filled in %v", time.Since(began))
	ctx := b.Context()
	run := func(name string, f func() (int, error)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n, err := f()
				require.NoError(b, err)
				require.Equal(b, 50, n)
			}
		})
	}
	bare := func(query string, args ...any) func() (int, error) {
		return func() (n int, err error) {
			rows, err := s.pool.Query(ctx, query, args...)
			if err != nil {
				return 0, err
			}
			for rows.Next() {
				if _, err := rows.Values(); err != nil {
					return 0, err
				}
				n++
			}
			return n, rows.Err()
		}
	}
	var number int64
	require.NoError(b, s.pool.QueryRow(ctx, `SELECT org FROM organizations WHERE id = $1`, uuidOf(org)).Scan(&number))
	for name, offset := range map[string]int{"first": 0, "middle": services / 2, "last": services - 50} {
		run("services/"+name, func() (int, error) {
			found, _, err := s.FindServices(ctx, org, assay.Page{Limit: 50, Offset: offset})
			return len(found), err
		})
	}
	run("services/first/bare", bare(`SELECT s.*, o.id FROM services s JOIN organizations o USING (org) WHERE s.org = $1
		ORDER BY substr(s.name, 1, 1024), s.name, s.environment, s.version, s.id LIMIT 50`, number))
	for _, sort := range []assay.InsightSort{assay.SortCreatedAt, assay.SortUpdatedAt, assay.SortImpact, assay.SortSignal} {
		for name, offset := range map[string]int{"first": 0, "middle": insights / 2, "last": insights - 50} {
			for _, descending := range []bool{false, true} {
				title := "insights/" + string(sort) + "/" + name
				if descending {
					title += "/descending"
				}
				run(title, func() (int, error) {
					found, _, err := s.FindInsights(ctx, assay.InsightFilter{OrganizationID: org, Sort: sort, Descending: descending, Page: assay.Page{Limit: 50, Offset: offset}})
					return len(found), err
				})
			}
		}
	}
	run("insights/filtered", func() (int, error) {
		found, _, err := s.FindInsights(ctx, assay.InsightFilter{
			OrganizationID: org, Sort: assay.SortImpact, Descending: true, Statuses: []assay.InsightStatus{assay.InsightArchived},
			Impacts: []assay.Impact{assay.ImpactLow, assay.ImpactNormal}, Signal: assay.SignalLog, Page: assay.Page{Limit: 50, Offset: 500},
		})
		return len(found), err
	})
	run("insights/first/bare", bare(`SELECT i.*, e.*, s.*, o.id FROM insights i JOIN evidence e ON e.svc = i.svc AND e.rule = i.rule JOIN services s ON s.svc = i.svc JOIN organizations o ON o.org = i.org
		WHERE i.org = $1 ORDER BY i.created_at, i.id LIMIT 50`, number))
}
