// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"assay"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
)

// KnownServices returns the keys of the services kept for an organization.
func (s *Store) KnownServices(ctx context.Context, organizationID string) ([]assay.ServiceKey, error) {
	return list(ctx, s, loads, "list known services", func(row pgx.CollectableRow) (k assay.ServiceKey, err error) {
		err = row.Scan((*raw)(&k.Namespace), (*raw)(&k.Name), (*raw)(&k.Environment), (*raw)(&k.Version))
		return k, err
	}, `SELECT namespace, name, environment, version FROM services
		WHERE org = (SELECT org FROM organizations WHERE id = $1)`, uuidOf(organizationID))
}

// KnownMetricNames returns the hashes of the metric names kept of each service
// of an organization: the keys of its MET-003 claims, their Low, but not those of older
// versions, whose names are among the others when they are sent again.
func (s *Store) KnownMetricNames(ctx context.Context, organizationID string) (map[assay.ServiceKey][]uint64, error) {
	names := make(map[assay.ServiceKey][]uint64)
	err := s.read(ctx, loads, "list known metric names", func(b *pgx.Batch) {
		clear(names)
		b.Queue(`SELECT namespace, name, environment, version, names
			FROM services s, LATERAL (SELECT array_agg(DISTINCT c.key) AS names FROM claims c WHERE c.svc = s.svc AND c.rule = $1 AND c.key_high <> 0) AS known
			WHERE org = (SELECT org FROM organizations WHERE id = $2) AND names IS NOT NULL`,
			int16(codec.RuleNumber(catalog.MET003)), uuidOf(organizationID)).Query(func(rows pgx.Rows) error {
			var (
				k      assay.ServiceKey
				hashes []int64
			)
			_, err := pgx.ForEachRow(rows, []any{(*raw)(&k.Namespace), (*raw)(&k.Name), (*raw)(&k.Environment), (*raw)(&k.Version), &hashes}, func() error {
				of := make([]uint64, len(hashes))
				for i, h := range hashes {
					of[i] = uint64(h)
				}
				names[k] = of
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}
