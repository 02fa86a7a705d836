// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"assay"
)

// FindAPIKeyPage implements assay.APIKeyStore.
func (s *Store) FindAPIKeyPage(ctx context.Context, organizationID string, now time.Time, page assay.Page) (*assay.APIKeyPage, error) {
	const live = `(k.revoked_at = 0 AND (k.expires_at = 0 OR k.expires_at > $2))`
	var found *assay.APIKeyPage
	err := s.read(ctx, pages, "list API keys", func(b *pgx.Batch) {
		found = new(assay.APIKeyPage)
		b.Queue(`SELECT count(*), count(*) FILTER (WHERE `+live+`) FROM api_keys k JOIN organizations o USING (org) WHERE o.id = $1`,
			uuidOf(organizationID), micros(now)).QueryRow(func(row pgx.Row) error { return row.Scan(&found.Total, &found.Live) })
		b.Queue(selectAPIKeys+`WHERE o.id = $1 ORDER BY `+live+` DESC, k.created_at DESC, k.id DESC LIMIT $3 OFFSET $4`,
			uuidOf(organizationID), micros(now), page.Limit, page.Offset).Query(func(rows pgx.Rows) (err error) {
			found.Keys, err = pgx.CollectRows(rows, apiKeyOf)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
