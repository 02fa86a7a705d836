// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	"assay/internal/delta"
	"assay/internal/store/lane"
)

// journals writes to the journals of a delta, each of which its holder must hold.
func (c *commit) journals(journals []delta.Journal) error {
	for i := range journals {
		if err := c.journal(&journals[i]); err != nil {
			return fmt.Errorf("journal %s: %w", journals[i].Name, err)
		}
	}
	return nil
}

func (c *commit) journal(j *delta.Journal) error {
	var one int
	held, err := c.get(findLease, []any{&one}, delta.JournalLease(j.Name), j.Holder)
	if err != nil {
		return err
	}
	if !held {
		return delta.ErrJournalLost
	}
	for _, e := range j.Append {
		if e.Seq > math.MaxInt64 {
			return fmt.Errorf("sequence number %d is too large", e.Seq)
		}
		data := e.Data
		if data == nil {
			data = []byte{} // nil would be NULL
		}
		if _, err := c.exec(addEntry, j.Name, int64(e.Seq), data); taken(err) {
			return fmt.Errorf("entry %d: %w", e.Seq, delta.ErrJournalConflict)
		} else if err != nil {
			return err
		}
	}
	for _, seq := range j.Forget {
		if seq > math.MaxInt64 {
			continue // was never stored
		}
		if _, err := c.exec(forgetEntry, j.Name, int64(seq)); err != nil {
			return err
		}
	}
	return nil
}

// ReadJournal returns the entries of a journal with a sequence number greater
// than after, in order of their numbers and at most limit of them.
func (s *Store) ReadJournal(ctx context.Context, name string, after uint64, limit int) ([]delta.JournalEntry, error) {
	if after > math.MaxInt64 || limit <= 0 {
		return nil, nil
	}
	var entries []delta.JournalEntry
	err := s.query(ctx, lane.Lookups, "read a journal", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT seq, data FROM journals WHERE name = ? AND seq > ? ORDER BY seq LIMIT ?`, name, int64(after), limit)
		return each(rows, err, func(rows *sql.Rows) error {
			var seq int64
			var e delta.JournalEntry
			if err := rows.Scan(&seq, &e.Data); err != nil {
				return err
			}
			e.Seq = uint64(seq)
			entries = append(entries, e)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// Journals returns the names of the journals that have entries, in order.
func (s *Store) Journals(ctx context.Context) ([]string, error) {
	var names []string
	// From name to name, however many entries there are.
	err := s.query(ctx, lane.Lookups, "list journals", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `WITH RECURSIVE n (name) AS (
				SELECT min(name) FROM journals
				UNION ALL SELECT (SELECT min(name) FROM journals WHERE name > n.name) FROM n WHERE n.name IS NOT NULL)
			SELECT name FROM n WHERE name IS NOT NULL`)
		return each(rows, err, func(rows *sql.Rows) error {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, name)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}
