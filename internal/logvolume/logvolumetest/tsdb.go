// SPDX-License-Identifier: Apache-2.0

package logvolumetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// End is when the version that wrote the directory was killed.
var End = time.Date(2026, time.November, 22, 2, 59, 0, 0, time.UTC)

// Responses of that version at End for the organization 01494cba-f41b-4241-9f2e-dff35a13e3a2: log records in
// 24 hours and in 30 days.
const (
	Day   = 203_976
	Month = 660_018
)

//go:embed tsdb.tar.gz
var archive []byte

// Unpack writes the directory metrics and the file answers.json, with that version's responses by
// organization and period, below dir.
func Unpack(t testing.TB, dir string) {
	t.Helper()
	uncompressed, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	for r := tar.NewReader(uncompressed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			require.NoError(t, os.MkdirAll(path, 0o700))
			continue
		}
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
}
