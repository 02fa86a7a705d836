// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"github.com/jackc/pgx/v5"

	"assay/internal/store/fold"
)

const saveSeries = `INSERT INTO series (svc, oldest, n, facts)
	SELECT svc, oldest, n, facts FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) AS a (svc, oldest, n, facts)
	ON CONFLICT (svc) DO UPDATE SET oldest = excluded.oldest, n = excluded.n, facts = excluded.facts`

// queueSeries adds the metric series of services. They change no score.
func queueSeries(b *pgx.Batch, services []*service) error {
	var svcs, oldest, ns []int64
	var facts [][]byte
	for _, s := range services {
		if s.facts.Series.Empty() {
			continue
		}
		kept, merged, err := fold.Series(s.series, &s.facts.Series)
		if err != nil {
			return err
		}
		if merged != nil {
			svcs, oldest, ns, facts = append(svcs, s.svc), append(oldest, int64(kept.Oldest())), append(ns, int64(kept.Count())), append(facts, merged)
		}
	}
	if len(svcs) > 0 {
		b.Queue(saveSeries, svcs, oldest, ns, facts)
	}
	return nil
}
