// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"assay/internal/delta"
	"assay/internal/store/merge"
)

// series adds the metric series of a service. They change no score.
func (c *commit) series(svc int64, isNew bool, f *delta.Service) error {
	if f.Series.Empty() {
		return nil
	}
	var blob []byte
	if !isNew {
		if _, err := c.get(findSeries, []any{&blob}, svc); err != nil {
			return err
		}
	}
	kept, merged, err := merge.Series(blob, &f.Series)
	if err != nil || merged == nil {
		return err
	}
	_, err = c.exec(saveSeries, svc, int64(kept.Oldest()), int64(kept.Count()), merged)
	return err
}
