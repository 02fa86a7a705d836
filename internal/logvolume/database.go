// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
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
	value      uint64
	at         int64
	generation string
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
		l := s.Labels()
		key := censusKey
		if l.Get(model.MetricNameLabel) == metricName {
			key = seriesKey{strings.Clone(l.Get(organizationLabel)), severityOf(l.Get(severityLabel))}
		}
		it = s.Iterator(it)
		newest := sample{at: never, generation: strings.Clone(l.Get(generationLabel))}
		for it.Next() != chunkenc.ValNone {
			at, value := it.At()
			if at > moment {
				if newest.at == never {
					newest.value = uint64(value)
				}
				break
			}
			newest.at, newest.value = at, uint64(value)
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
		// Of two generations the one that came later.
		if other, ok := last[key]; !ok || newest.at == never || other.at != never && newest.at > other.at {
			last[key] = newest
		}
	}
	return last, set.Err()
}

// count adds an organization's records to an empty volume.
func (d *database) count(ctx context.Context, organizationID string, v *assay.LogVolume) error {
	from, to := v.Start.Add(-lookback).UnixMilli(), v.End.UnixMilli()
	q, err := d.ChunkQuerier(from, to)
	if err != nil {
		return err
	}
	defer q.Close()
	set := q.Select(ctx, false, &storage.SelectHints{Start: from, End: to, DisableTrimming: true},
		labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, metricName),
		labels.MustNewMatcher(labels.MatchEqual, organizationLabel, organizationID))
	var it chunks.Iterator
	for set.Next() {
		s := set.At()
		it = s.Iterator(it)
		t := newTally(v, severityOf(s.Labels().Get(severityLabel)))
		for n := 1; it.Next(); n++ {
			if err := t.chunk(it.At().Chunk); err != nil {
				return err
			}
			if n%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if err := errors.Join(it.Err(), t.end()); err != nil {
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
