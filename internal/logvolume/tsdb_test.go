// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/logvolume/logvolumetest"
)

// TestReadTSDB reads the data that the last version with a TSDB wrote in 34 days, with restarts and
// compactions, until it was killed. It compares the results with that version's responses.
func TestReadTSDB(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	logvolumetest.Unpack(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, "answers.json"))
	require.NoError(t, err)
	var want map[string]map[assay.LogVolumePeriod]*assay.LogVolume
	require.NoError(t, json.Unmarshal(text, &want))

	var log bytes.Buffer
	found, err := ReadTSDB(t.Context(), filepath.Join(dir, "metrics", "tsdb"), logvolumetest.End, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.Empty(t, log.String())
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(found)))
	for id, list := range found {
		require.True(t, slices.IsSortedFunc(list, func(a, b assay.LogRecords) int { return a.Start.Compare(b.Start) }))
		require.LessOrEqual(t, len(list), 48*60+30*24)
		for _, r := range list {
			old := r.Start.Before(logvolumetest.End.Add(-assay.LogMinutesRetention).Truncate(time.Hour))
			require.Equal(t, map[bool]time.Duration{true: time.Hour, false: time.Minute}[old], r.Span)
			require.Equal(t, r.Start, r.Start.Truncate(r.Span))
		}
		e := NewEmbedded(records(found), func() time.Time { return logvolumetest.End })
		for period, v := range want[id] {
			got, err := e.LogVolume(t.Context(), id, period)
			require.NoError(t, err)
			if period == "7d" || period == "30d" { // hours lie in two steps
				v.Series, got.Series = nil, nil
			}
			require.Equal(t, v, got, "%s of %s", period, id)
		}
	}
}

// TestReadDamagedTSDB reads the intact part of damaged files.
func TestReadDamagedTSDB(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	logvolumetest.Unpack(t, whole)
	read := func(t *testing.T, dir string) (uint64, string) {
		t.Helper()
		var log bytes.Buffer
		found, err := ReadTSDB(t.Context(), filepath.Join(dir, "metrics", "tsdb"), logvolumetest.End, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		var n uint64
		for _, list := range found {
			for _, r := range list {
				n += r.Counts.Total()
			}
		}
		return n, log.String()
	}
	all, _ := read(t, whole)
	for name, c := range map[string]struct {
		files  string // that are damaged
		damage func(data []byte) []byte
		counts bool // complete result: missing samples count at the next sample
		quiet  bool // logs nothing
	}{
		"no chunks":            {"*/chunks/000001", func([]byte) []byte { return nil }, false, false},
		"no index":             {"*/index", func([]byte) []byte { return nil }, false, false},
		"wrong chunks":         {"*/chunks/000001", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, false, false},
		"meta.json is no JSON": {"*/meta.json", func([]byte) []byte { return []byte("x") }, true, true},
		"torn log":             {"wal/00000076", func(b []byte) []byte { return b[:len(b)-3] }, false, false},
		"torn header":          {"wal/00000076", func(b []byte) []byte { return append(b, 1, 0) }, true, false},
		"wrong log":            {"wal/00000075", func(b []byte) []byte { b[20] ^= 1; return b }, true, false},
		"wrong compression":    {"wal/00000076", func(b []byte) []byte { b[0] |= walZstd; return b }, false, false},
		"empty log":            {"wal/00000076", func([]byte) []byte { return nil }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
			paths, err := filepath.Glob(filepath.Join(dir, "metrics", "tsdb", c.files))
			require.NoError(t, err)
			require.NotEmpty(t, paths)
			for _, path := range paths {
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, c.damage(data), 0o600))
			}
			n, log := read(t, dir)
			require.Positive(t, n)
			require.LessOrEqual(t, n, all)
			require.Equal(t, c.counts, n == all, "%d of %d", n, all)
			require.Equal(t, c.quiet, log == "", log)
			require.False(t, strings.Contains(log, "level=ERROR"))
		})
	}
	_, err := ReadTSDB(t.Context(), filepath.Join(whole, "nothing"), logvolumetest.End, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "wal")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = ReadTSDB(t.Context(), filepath.Dir(file), logvolumetest.End, slog.New(slog.DiscardHandler))
	require.True(t, err != nil && !errors.Is(err, fs.ErrNotExist), err)
}
