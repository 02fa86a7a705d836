// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"assay/internal/delta"
)

const (
	addEntries    = `INSERT INTO journals (name, seq, data) SELECT name, seq, data FROM unnest($1::text[], $2::bigint[], $3::bytea[]) AS n (name, seq, data)`
	forgetEntries = `DELETE FROM journals j USING unnest($1::text[], $2::bigint[]) AS n (name, seq) WHERE j.name = n.name AND j.seq = n.seq`
)

// queueJournals writes to the journals of a delta, each of which its holder must
// hold. The function it returns, called after the batch, gives the error when one
// does not.
func queueJournals(b *pgx.Batch, journals []delta.Journal) (lost func() error, err error) {
	if len(journals) == 0 {
		return func() error { return nil }, nil
	}
	var leases, holders, added, forgotten []string
	var seqs, gone []int64
	var data [][]byte
	for i := range journals {
		j := &journals[i]
		leases, holders = append(leases, delta.JournalLease(j.Name)), append(holders, j.Holder)
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
			if seq <= math.MaxInt64 { // others were never stored
				forgotten, gone = append(forgotten, j.Name), append(gone, int64(seq))
			}
		}
	}
	names := queueLeases(b, leases, holders)
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
		return nil
	}, nil
}

// journalError says what the failure of a batch that writes to journals means, when
// that is what failed: nothing else in a commit can meet what is there already.
func journalError(err error, lost func() error) error {
	if !taken(err) {
		return err
	}
	if err := lost(); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", delta.ErrJournalConflict, err)
}

// ReadJournal returns the entries of a journal with a sequence number greater than
// after, in order of their numbers and at most limit of them.
func (s *Store) ReadJournal(ctx context.Context, name string, after uint64, limit int) ([]delta.JournalEntry, error) {
	if after > math.MaxInt64 || limit <= 0 {
		return nil, nil
	}
	return list(ctx, s, lookups, "read a journal", func(row pgx.CollectableRow) (e delta.JournalEntry, err error) {
		var seq int64
		err = row.Scan(&seq, &e.Data)
		e.Seq = uint64(seq)
		return e, err
	}, `SELECT seq, data FROM journals WHERE name = $1 AND seq > $2 ORDER BY seq LIMIT $3`, name, int64(after), limit)
}

// Journals returns the names of the journals that have entries, in order.
func (s *Store) Journals(ctx context.Context) ([]string, error) {
	// From name to name, however many entries there are.
	return list(ctx, s, lookups, "list journals", pgx.RowTo[string], `WITH RECURSIVE n (name) AS (
			(SELECT name FROM journals ORDER BY name LIMIT 1)
			UNION ALL SELECT (SELECT j.name FROM journals j WHERE j.name > n.name ORDER BY j.name LIMIT 1) FROM n WHERE n.name IS NOT NULL)
		SELECT name FROM n WHERE name IS NOT NULL`)
}
