// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/compression"

	"assay"
)

// retention is longer than the longest period by more than the lookback.
const retention = 31 * 24 * time.Hour

// database is the TSDB of one directory.
type database struct {
	*tsdb.DB
	logger *slog.Logger
}

func options() *tsdb.Options {
	o := tsdb.DefaultOptions()
	o.RetentionDuration = retention.Milliseconds()
	o.MaxBlockDuration = (72 * time.Hour).Milliseconds()
	o.NoLockfile = true // whoever opens it holds the lock of the directory above
	// A few series at a few samples a second: everything that is allocated or
	// reserved in advance is small.
	o.WALSegmentSize = 8 << 20
	o.WALCompression = compression.Snappy
	o.MaxBlockChunkSegmentSize = 64 << 20
	o.StripeSize = 256
	o.HeadChunksWriteBufferSize = chunks.MinWriteBufferSize
	return o
}

// newest returns a time that no sample is later than, in Unix milliseconds.
// Samples after it can be appended.
func (d *database) newest() int64 {
	newest := d.Head().MaxTime()
	for _, b := range d.Blocks() {
		newest = max(newest, b.Meta().MaxTime)
	}
	return newest
}

// sample is a value of a series and when it was written.
type sample struct {
	value uint64
	at    int64
}

// lastSamples returns the newest sample of each series at a moment. A series that
// begins later has its first value, and never for its time. A series without a
// sample in the hours before the moment, where every living one has some, is missing.
func (d *database) lastSamples(ctx context.Context, moment int64) (map[seriesKey]sample, error) {
	q, err := d.Querier(moment-3*keepAlive.Milliseconds(), math.MaxInt64)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	last := make(map[seriesKey]sample)
	set := q.Select(ctx, false, nil, labels.MustNewMatcher(labels.MatchNotEqual, model.MetricNameLabel, ""))
	var it chunkenc.Iterator
	for set.Next() {
		s := set.At()
		key := seriesKey{s.Labels().Get(organizationLabel), severityOf(s.Labels().Get(severityLabel))}
		if s.Labels().Get(model.MetricNameLabel) == censusName {
			key = censusKey
		}
		it = s.Iterator(it)
		for it.Next() != chunkenc.ValNone {
			at, value := it.At()
			_, found := last[key]
			switch {
			case at <= moment:
				last[key] = sample{uint64(value), at}
				continue
			case !found:
				last[key] = sample{uint64(value), never}
			}
			break
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
	}
	return last, set.Err()
}

// count adds an organization's records to an empty volume. What a series grew by
// from one sample to the next was accepted when the later one was written. Before
// its first sample, and where it shrank, nothing was.
func (d *database) count(ctx context.Context, organizationID string, v *assay.LogVolume) error {
	start, end, step := v.Start.UnixMilli(), v.End.UnixMilli(), step(v).Milliseconds()
	q, err := d.Querier(start-lookback.Milliseconds(), end)
	if err != nil {
		return err
	}
	defer q.Close()
	set := q.Select(ctx, false, nil,
		labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, metricName),
		labels.MustNewMatcher(labels.MatchEqual, organizationLabel, organizationID))
	var it chunkenc.Iterator
	for set.Next() {
		s := set.At()
		severity := severityOf(s.Labels().Get(severityLabel))
		it = s.Iterator(it)
		before := math.Inf(1)
		for n := 1; it.Next() != chunkenc.ValNone; n++ {
			at, value := it.At()
			if value > before && at > start && at <= end {
				v.Series[(at-start-1)/step].Counts[severity] += uint64(value - before)
			}
			before = value
			if n%4096 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if err := it.Err(); err != nil {
			return err
		}
	}
	if err := set.Err(); err != nil {
		return err
	}
	for i := range v.Series {
		v.Counts.Add(&v.Series[i].Counts)
	}
	return ctx.Err()
}
