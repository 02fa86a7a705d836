// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"assay/internal/delta"
)

const (
	findEntries   = `SELECT n.name FROM unnest($1::text[], $2::bigint[]) AS n (name, next) WHERE EXISTS (SELECT FROM journals j WHERE j.name = n.name AND j.seq >= n.next)`
	addEntries    = `INSERT INTO journals (name, seq, data) SELECT name, seq, data FROM unnest($1::text[], $2::bigint[], $3::bytea[]) AS n (name, seq, data)`
	forgetEntries = `DELETE FROM journals j USING unnest($1::text[], $2::bigint[]) AS n (name, seq) WHERE j.name = n.name AND j.seq = n.seq`
)

// queueJournals writes the journals of a delta. Call lost after the batch: it returns the
// error if a holder does not hold its journal or does not know its entries.
func queueJournals(b *pgx.Batch, journals []delta.Journal) (lost func() error, err error) {
	if len(journals) == 0 {
		return func() error { return nil }, nil
	}
	var leases, holders, checked, added, forgotten []string
	var next, seqs, gone []int64
	var data [][]byte
	for i := range journals {
		j := &journals[i]
		leases, holders = append(leases, delta.JournalLease(j.Name)), append(holders, j.Holder)
		if j.Next <= math.MaxInt64 { // higher numbers are never stored
			checked, next = append(checked, j.Name), append(next, int64(j.Next))
		}
		for _, e := range j.Append {
			if e.Seq > math.MaxInt64 {
				return nil, fmt.Errorf("journal %s: sequence number %d is too large", j.Name, e.Seq)
			}
			d := e.Data
			if d == nil {
				d = []byte{} // nil would be NULL
			}
			added, seqs, data = append(added, j.Name), append(seqs, int64(e.Seq)), append(data, d)
		}
		for _, seq := range j.Forget {
			if seq <= math.MaxInt64 {
				forgotten, gone = append(forgotten, j.Name), append(gone, int64(seq))
			}
		}
	}
	names := queueLeases(b, leases, holders)
	var unknown []string
	b.Queue(findEntries, checked, next).Query(func(rows pgx.Rows) (err error) {
		unknown, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if len(added) > 0 {
		b.Queue(addEntries, added, seqs, data)
	}
	if len(gone) > 0 {
		b.Queue(forgetEntries, forgotten, gone)
	}
	return func() error {
		if lost := names(); len(lost) > 0 {
			return fmt.Errorf("lease %s: %w", lost[0], delta.ErrJournalLost)
		}
		if len(unknown) > 0 {
			return fmt.Errorf("journal %s: %w", unknown[0], delta.ErrJournalConflict)
		}
		return nil
	}, nil
}

// journalError returns the cause of a failed batch that writes journals. In a commit,
// only a journal entry can violate a unique constraint.
func journalError(err error, lost func() error) error {
	if !taken(err) {
		return err
	}
	if err := lost(); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", delta.ErrJournalConflict, err)
}
