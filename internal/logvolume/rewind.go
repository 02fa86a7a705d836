// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/tsdb"
)

// rewind closes the TSDB, whose compactions are disabled, and takes every sample
// later than a moment out of its files. A TSDB only appends, so what is kept of a
// head or of a block that reaches beyond the moment is written as a new block. A
// rewind that was interrupted can be done again.
func (d *database) rewind(ctx context.Context, moment int64) error {
	trimmed, err := d.trim(ctx, moment)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	for _, name := range append(trimmed, headFiles...) {
		if err := os.RemoveAll(filepath.Join(d.Dir(), name)); err != nil {
			return err
		}
	}
	return nil
}

// trim writes the blocks that are to stay and returns the names of those that are
// not.
func (d *database) trim(ctx context.Context, moment int64) ([]string, error) {
	compactor, err := tsdb.NewLeveledCompactor(ctx, nil, d.logger, []int64{options().MinBlockDuration}, nil, nil)
	if err != nil {
		return nil, err
	}
	keep := func(b tsdb.BlockReader, from int64) error {
		if from > moment {
			return nil
		}
		if _, err := compactor.Write(d.Dir(), b, from, moment+1, nil); err != nil {
			return fmt.Errorf("write what is kept: %w", err)
		}
		return nil
	}
	if head := d.Head(); head.NumSeries() > 0 {
		if err := keep(tsdb.NewRangeHead(head, head.MinTime(), moment), head.MinTime()); err != nil {
			return nil, err
		}
	}
	var trimmed []string
	for _, b := range d.Blocks() {
		if meta := b.Meta(); meta.MaxTime > moment+1 {
			if err := keep(b, meta.MinTime); err != nil {
				return nil, err
			}
			trimmed = append(trimmed, meta.ULID.String())
		}
	}
	return trimmed, nil
}
