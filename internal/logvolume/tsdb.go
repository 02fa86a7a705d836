// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/record"

	"assay"
	"assay/internal/lists"
)

// ReadTSDB reads the Prometheus TSDB in which earlier versions kept log volume, and
// returns its log records by organization id, oldest first. Records older than
// assay.LogMinutesRetention at now are by the hour, others by the minute. ReadTSDB logs
// and skips blocks and log segments that it cannot read; their records count at the next
// sample of a series that has an earlier one. It fails for a directory that it cannot
// read, and changes no file.
func ReadTSDB(ctx context.Context, dir string, now time.Time, logger *slog.Logger) (map[string][]assay.LogRecords, error) {
	r := &tsdbReader{
		minutes: now.Add(-assay.LogMinutesRetention).Truncate(time.Hour),
		oldest:  now.Add(-assay.LogHoursRetention - time.Hour),
		series:  make(map[tsdbSeries]*tsdbSample),
		counts:  make(map[string]map[span]*assay.SeverityCounts),
	}
	blocks, err := findBlocks(dir)
	if err != nil {
		return nil, err
	}
	segments, err := findSegments(filepath.Join(dir, "wal"))
	if err != nil {
		return nil, err
	}
	skip := func(path string, err error) {
		if err != nil {
			logger.WarnContext(ctx, "part of the earlier log volume cannot be read and is skipped", "file", path, "error", err)
		}
	}
	for _, block := range blocks {
		skip(block, r.block(ctx, block))
	}
	refs := make(map[chunks.HeadSeriesRef]tsdbSeries)
	for _, segment := range segments {
		skip(segment, r.segment(segment, refs))
	}
	return r.records(), ctx.Err()
}

// tsdbSeries is the labels of a series of logs_severity_total.
type tsdbSeries struct {
	organizationID string
	severity       assay.Severity
	generation     string // distinguishes series that followed each other
}

// seriesOf returns the series with the labels, and false for another metric.
func seriesOf(l labels.Labels) (tsdbSeries, bool) {
	return tsdbSeries{
		strings.Clone(l.Get(organizationLabel)), severityOf(l.Get(severityLabel)), strings.Clone(l.Get("generation")),
	}, l.Get(model.MetricNameLabel) == metricName
}

// tsdbSample is the newest sample of a series.
type tsdbSample struct {
	at    int64 // Unix milliseconds
	value float64
}

// span is a minute or an hour.
type span struct {
	start  time.Time
	length time.Duration
}

// tsdbReader adds up the increases of series from one sample to the next.
type tsdbReader struct {
	minutes, oldest time.Time // the first that counts by the minute, and at all
	series          map[tsdbSeries]*tsdbSample
	counts          map[string]map[span]*assay.SeverityCounts
}

// sample counts a sample that is newer than all before of its series. Blocks and the log
// overlap.
func (r *tsdbReader) sample(s tsdbSeries, at int64, value float64) {
	last := r.series[s]
	if last == nil {
		r.series[s] = &tsdbSample{at, value} // the series counts from here on
		return
	}
	if at <= last.at {
		return
	}
	before := last.value
	last.at, last.value = at, value
	if t := time.UnixMilli(at).UTC(); value > before && t.After(r.oldest) {
		sp := span{t.Truncate(time.Minute), time.Minute}
		if t.Before(r.minutes) {
			sp = span{t.Truncate(time.Hour), time.Hour}
		}
		spans := r.counts[s.organizationID]
		if spans == nil {
			spans = make(map[span]*assay.SeverityCounts)
			r.counts[s.organizationID] = spans
		}
		if spans[sp] == nil {
			spans[sp] = new(assay.SeverityCounts)
		}
		spans[sp][s.severity] += uint64(value - before)
	}
}

func (r *tsdbReader) records() map[string][]assay.LogRecords {
	all := make(map[string][]assay.LogRecords, len(r.counts))
	for id, spans := range r.counts {
		for _, sp := range slices.SortedFunc(maps.Keys(spans), func(a, b span) int { return a.start.Compare(b.start) }) {
			all[id] = append(all[id], assay.LogRecords{Start: sp.start, Span: sp.length, Counts: *spans[sp]})
		}
	}
	return all
}

// findBlocks returns the directories of the blocks in the order of their times.
func findBlocks(dir string) ([]string, error) {
	metas, err := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	if err != nil {
		return nil, err
	}
	type block struct {
		dir              string
		MinTime, MaxTime int64
	}
	var blocks []block
	for _, path := range metas {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		b := block{dir: filepath.Dir(path)}
		_ = json.Unmarshal(text, &b) // reading the block reports the error
		blocks = append(blocks, b)
	}
	slices.SortFunc(blocks, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.MinTime, b.MinTime), cmp.Compare(a.MaxTime, b.MaxTime))
	})
	return lists.Map(blocks, func(b block) string { return b.dir }), nil
}

func (r *tsdbReader) block(ctx context.Context, dir string) (err error) {
	ir, err := index.NewFileReader(filepath.Join(dir, "index"), index.DecodePostingsRaw)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ir.Close()) }()
	cr, err := chunks.NewDirReader(filepath.Join(dir, "chunks"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cr.Close()) }()
	postings, err := ir.Postings(ctx, model.MetricNameLabel, metricName)
	if err != nil {
		return err
	}
	var builder labels.ScratchBuilder
	var metas []chunks.Meta
	var it chunkenc.Iterator
	for postings.Next() {
		if err := ir.Series(postings.At(), &builder, &metas); err != nil {
			return err
		}
		s, _ := seriesOf(builder.Labels())
		for _, meta := range metas {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			chunk, _, err := cr.ChunkOrIterable(meta)
			if err != nil {
				return err
			}
			for it = chunk.Iterator(it); it.Next() == chunkenc.ValFloat; {
				at, value := it.At()
				r.sample(s, at, value)
			}
			if err := it.Err(); err != nil {
				return err
			}
		}
	}
	return postings.Err()
}

// findSegments returns the files of the write-ahead log in the order in which they were
// written: records of the last checkpoint and records after it.
func findSegments(dir string) ([]string, error) {
	const prefix = "checkpoint."
	entries, err := os.ReadDir(dir) // sorted; all numbers have eight digits
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var segments []string
	checkpoint := ""
	for _, e := range entries {
		number := strings.TrimPrefix(e.Name(), prefix)
		switch {
		case len(number) != 8 || strings.Trim(number, "0123456789") != "": // such as a checkpoint that is not complete
		case e.IsDir():
			checkpoint = number
		default:
			segments = append(segments, filepath.Join(dir, number))
		}
	}
	if checkpoint == "" {
		return segments, nil
	}
	segments = slices.DeleteFunc(segments, func(path string) bool { return filepath.Base(path) <= checkpoint })
	first, err := findSegments(filepath.Join(dir, prefix+checkpoint))
	return append(first, segments...), err
}

// The format of a segment: pages of fragments, each with a header.
// Source: https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/wal.md
const (
	walPage   = 32 << 10
	walHeader = 7 // type and compression, length, checksum

	walPageEnd = 0 // the rest of the page is empty
	walFull    = 1
	walLast    = 4
	walType    = 7
	walSnappy  = 8
	walZstd    = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segment reads one file of the log. refs are the series that were declared before.
func (r *tsdbReader) segment(path string, refs map[chunks.HeadSeriesRef]tsdbSeries) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoder := record.NewDecoder(nil, slog.New(slog.DiscardHandler))
	var rec, uncompressed []byte
	for at := 0; at < len(data); {
		header := data[at]
		if header&walType == walPageEnd {
			at += walPage - at%walPage
			continue
		}
		if len(data)-at < walHeader {
			return errTorn
		}
		length, sum := int(binary.BigEndian.Uint16(data[at+1:])), binary.BigEndian.Uint32(data[at+3:])
		if at += walHeader; len(data)-at < length {
			return errTorn
		}
		fragment := data[at : at+length]
		if at += length; crc32.Checksum(fragment, castagnoli) != sum {
			return fmt.Errorf("wrong checksum before byte %d", at)
		}
		rec = append(rec, fragment...)
		if t := header & walType; t != walFull && t != walLast {
			continue
		}
		whole := rec
		switch {
		case header&walZstd != 0:
			return errors.New("unexpected compression")
		case header&walSnappy != 0:
			if uncompressed, err = snappy.Decode(uncompressed[:cap(uncompressed)], rec); err != nil {
				return err
			}
			whole = uncompressed
		}
		if err := r.record(&decoder, whole, refs); err != nil {
			return err
		}
		rec = rec[:0]
	}
	return nil
}

// errTorn reports an incomplete record at the end of the log, as after a crash.
var errTorn = errors.New("the last record is not complete")

func (r *tsdbReader) record(d *record.Decoder, rec []byte, refs map[chunks.HeadSeriesRef]tsdbSeries) error {
	switch d.Type(rec) {
	case record.Series:
		declared, err := d.Series(rec, nil)
		for _, s := range declared {
			if key, ok := seriesOf(s.Labels); ok {
				refs[s.Ref] = key
			}
		}
		return err
	case record.Samples, record.SamplesV2:
		samples, err := d.Samples(rec, nil)
		for _, s := range samples {
			if key, ok := refs[s.Ref]; ok {
				r.sample(key, s.T, s.V)
			}
		}
		return err
	default:
		return nil
	}
}
