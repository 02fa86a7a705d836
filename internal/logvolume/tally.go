// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"math"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"assay"
)

// tally counts the records of one series in the steps of a volume. What the series
// grew by from one sample to the next was accepted when the later one was written;
// before its first sample nothing was.
//
// A series never shrinks. A chunk that lies in one step with the first sample of the
// next chunk therefore needs no more than its own first sample to be read, and that
// is almost every chunk of a long period.
type tally struct {
	volume         *assay.LogVolume
	severity       assay.Severity
	from, to, step int64

	value float64           // of the newest sample
	in    int64             // its step
	rest  chunkenc.Iterator // of its chunk; may be nil
	spare chunkenc.Iterator
}

func newTally(v *assay.LogVolume, severity assay.Severity) *tally {
	return &tally{
		volume: v, severity: severity,
		from: v.Start.UnixMilli(), to: v.End.UnixMilli(), step: step(v).Milliseconds(),
		value: math.Inf(1),
	}
}

// stepOf returns the index of the step that a moment is in; that of a moment
// outside of the period is no index.
func (t *tally) stepOf(at int64) int64 {
	if at <= t.from {
		return -1
	}
	return (at - t.from - 1) / t.step
}

// chunk counts the next chunk's first sample and sees to the one before.
func (t *tally) chunk(c chunkenc.Chunk) error {
	it := c.Iterator(t.spare)
	if it.Next() == chunkenc.ValNone {
		return it.Err()
	}
	at, value := it.At()
	if t.rest != nil && t.stepOf(at) != t.in {
		if err := t.finish(); err != nil {
			return err
		}
	}
	t.rest, t.spare = it, t.rest
	t.sample(at, value)
	return nil
}

// finish counts the rest of the newest chunk.
func (t *tally) finish() error {
	for t.rest.Next() != chunkenc.ValNone {
		t.sample(t.rest.At())
	}
	return t.rest.Err()
}

func (t *tally) sample(at int64, value float64) {
	t.in = t.stepOf(at)
	if value > t.value && t.in >= 0 && at <= t.to {
		t.volume.Series[t.in].Counts[t.severity] += uint64(value - t.value)
	}
	t.value = value
}

// end counts what is left.
func (t *tally) end() error {
	if t.rest == nil {
		return nil
	}
	return t.finish()
}
