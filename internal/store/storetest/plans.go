// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"time"

	"assay/internal/delta"
	"assay/internal/store/connpool"
	"assay/internal/store/query"
)

// Recorder is an engine that only records the statements of views and of the expiry, for
// tests of their plans. Other methods panic.
type Recorder struct {
	query.Engine
	query.Tx
	// Row is the result of the first step of a view with several steps: an organization's row and the length
	// of a list. The zero value means no row.
	Row        [2]int64
	Statements []query.Statement
}

// View records the statements of the steps.
func (r *Recorder) View(_ context.Context, _ connpool.Pool, _ string, steps ...func(*query.Batch)) error {
	for i, step := range steps {
		var b query.Batch
		step(&b)
		r.Statements = append(r.Statements, b.Statements...)
		if i > 0 || len(steps) == 1 || r.Row == ([2]int64{}) {
			continue
		}
		for _, st := range b.Statements {
			if err := st.Each(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Chunk records the statements of do.
func (r *Recorder) Chunk(_ context.Context, _ connpool.Pool, _ string, do func(query.Tx) error) error {
	return do(r)
}

// Send records the statements of a batch.
func (r *Recorder) Send(_ context.Context, b *query.Batch) error {
	r.Statements = append(r.Statements, b.Statements...)
	return nil
}

// Now implements query.Tx.
func (r *Recorder) Now(context.Context) (time.Time, error) { return epoch, nil }

// Update records the statements of do.
func (r *Recorder) Update(_ context.Context, _ connpool.Pool, _ string, do func(query.Tx) error) error {
	return do(r)
}

// ExpireHistory implements query.Engine. There is no history.
func (r *Recorder) ExpireHistory(context.Context, time.Time, delta.Bucket) []func() error { return nil }

// Unavailable implements query.Engine.
func (r *Recorder) Unavailable(context.Context, error) bool { return false }

// Scan implements query.Row.
func (r *Recorder) Scan(dest ...any) error {
	for i, d := range dest {
		switch d := d.(type) {
		case *int64:
			*d = r.Row[i]
		case *int:
			*d = int(r.Row[i])
		default:
			return fmt.Errorf("no value for a %T", d)
		}
	}
	return nil
}
