// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"fmt"
	"math"

	"assay/internal/delta"
)

// journals writes the journals of a delta. The holder of each must hold its journal.
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
	if j.Next <= math.MaxInt64 {
		unknown, err := c.get(findEntry, []any{&one}, j.Name, int64(j.Next))
		if err != nil {
			return err
		}
		if unknown {
			return fmt.Errorf("from entry %d: %w", j.Next, delta.ErrJournalConflict)
		}
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
