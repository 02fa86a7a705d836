// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"assay/internal/delta"
	"assay/internal/store/merge"
)

// hourPartitions returns the partitions of hours for the buckets of services and of their
// distinct sets, which may be counted in other buckets.
func hourPartitions(services []*service) []partition {
	days := make(map[partition]bool)
	for _, s := range services {
		for bucket := range s.buckets {
			days[hoursTable.of(int64(bucket))] = true
		}
		for _, fact := range s.facts.Distinct {
			days[hoursTable.of(int64(fact.Last))] = true
		}
	}
	return slices.Collect(maps.Keys(days))
}

// hourRows are rows of hours in one partition, in columns.
type hourRows struct {
	buckets, svcs []int64
	tallies       [][]byte
}

// readHours reads the rows of hours that the commit adds to.
func (c *commit) readHours(services []*service, bySvc map[int64]*service) error {
	byDay := make(map[partition]*hourRows)
	for _, s := range services {
		if s.isNew {
			continue
		}
		s.hours = make(map[delta.Bucket][]byte, len(s.buckets))
		for bucket := range s.buckets {
			in(byDay, hoursTable.of(int64(bucket))).add(bucket, s.svc, nil)
		}
	}
	// A set that was seen in a newer bucket is counted in that bucket.
	if err := c.use(hourPartitions(services)...); err != nil {
		return err
	}
	b := new(pgx.Batch)
	for p, r := range byDay {
		b.Queue(`SELECT h.bucket, h.svc, h.tally FROM unnest($1::bigint[], $2::bigint[]) AS k (bucket, svc)
			JOIN `+p.name()+` h ON h.bucket = k.bucket AND h.svc = k.svc`, r.buckets, r.svcs).
			Query(eachRow(func(rows pgx.Rows) error {
				var bucket, svc int64
				var tally []byte
				if err := rows.Scan(&bucket, &svc, &tally); err != nil {
					return err
				}
				bySvc[svc].hours[delta.Bucket(bucket)] = tally
				return nil
			}))
	}
	return c.send(b)
}

func (r *hourRows) add(bucket delta.Bucket, svc int64, tally []byte) {
	r.buckets, r.svcs, r.tallies = append(r.buckets, int64(bucket)), append(r.svcs, svc), append(r.tallies, tally)
}

// queueHours adds the counts to the rows of hours.
func queueHours(b *pgx.Batch, services []*service) error {
	added, changed := make(map[partition]*hourRows), make(map[partition]*hourRows)
	for _, s := range services {
		for _, bucket := range slices.SortedFunc(maps.Keys(s.buckets), cmp.Compare[delta.Bucket]) {
			stored, ok := s.hours[bucket]
			tally, err := merge.Tally(stored, s.buckets[bucket])
			if err != nil {
				return err
			}
			rows := changed
			if !ok {
				rows = added
			}
			in(rows, hoursTable.of(int64(bucket))).add(bucket, s.svc, tally)
		}
	}
	for p, r := range added {
		b.Queue(`INSERT INTO `+p.name()+` (bucket, svc, tally) SELECT bucket, svc, tally FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS n (bucket, svc, tally)`,
			r.buckets, r.svcs, r.tallies)
	}
	for p, r := range changed {
		queueUpdate(b, len(r.svcs), `UPDATE `+p.name()+` h SET tally = n.tally FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS n (bucket, svc, tally)
			WHERE h.bucket = n.bucket AND h.svc = n.svc`, r.buckets, r.svcs, r.tallies)
	}
	return nil
}
