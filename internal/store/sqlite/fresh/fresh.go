// SPDX-License-Identifier: Apache-2.0

package fresh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/store/sqlite"
)

// template is the file of a migrated store without content.
var template = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "assay-")
	if err != nil {
		return nil, fmt.Errorf("fresh: make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "assay.db")
	s, err := sqlite.Open(context.Background(), sqlite.Config{Path: path, Migrate: true})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil { // this moves the journal into the file
		return nil, err
	}
	return os.ReadFile(path)
})

// Path returns the file of a new store without content, in a directory of the test.
func Path(t testing.TB) string {
	t.Helper()
	content, err := template()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "assay.db")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}
