// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"github.com/jackc/pgx/v5"

	"assay/internal/delta"
	"assay/internal/store/merge"
)

const (
	addSeries = `INSERT INTO series (svc, oldest, n, facts)
		SELECT svc, oldest, n, facts FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) AS a (svc, oldest, n, facts)`
	changeSeries = `UPDATE series s SET oldest = a.oldest, n = a.n, facts = a.facts
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) AS a (svc, oldest, n, facts) WHERE s.svc = a.svc`
)

// seriesRows are rows of series, in columns.
type seriesRows struct {
	svcs, oldest, ns []int64
	facts            [][]byte
}

func (r *seriesRows) add(svc int64, s *delta.Series, facts []byte) {
	r.svcs, r.oldest, r.ns, r.facts = append(r.svcs, svc), append(r.oldest, int64(s.Oldest())), append(r.ns, int64(s.Count())), append(r.facts, facts)
}

// queueSeries adds the metric series of services. They change no score.
func queueSeries(b *pgx.Batch, services []*service) error {
	var added, changed seriesRows
	for _, s := range services {
		if s.facts.Series.Empty() {
			continue
		}
		kept, merged, err := merge.Series(s.series, &s.facts.Series)
		if err != nil {
			return err
		}
		switch {
		case merged == nil:
		case s.series == nil:
			added.add(s.svc, kept, merged)
		default:
			changed.add(s.svc, kept, merged)
		}
	}
	if len(added.svcs) > 0 {
		b.Queue(addSeries, added.svcs, added.oldest, added.ns, added.facts)
	}
	if n := len(changed.svcs); n > 0 {
		queueUpdate(b, n, changeSeries, changed.svcs, changed.oldest, changed.ns, changed.facts)
	}
	return nil
}
