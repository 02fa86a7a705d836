// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/fair"
	"assay/internal/store/storetest"
)

// migrated returns the URL of a new database with the schema, a copy of a template that is created once.
func migrated(t testing.TB) string {
	t.Helper()
	url, err := template()
	require.NoError(t, err)
	url, err = server.NewDatabaseFrom(context.Background(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.DropDatabase(context.Background(), url)) })
	return url
}

var template = sync.OnceValues(func() (string, error) {
	url, err := server.NewDatabase(context.Background())
	if err != nil {
		return "", err
	}
	s, err := Open(context.Background(), Config{URL: url, Migrate: true})
	if err != nil {
		return "", err
	}
	return url, s.Close()
})

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB, now func() time.Time) storetest.Opener {
		url := migrated(t)
		return func() (storetest.Store, error) {
			return Open(context.Background(), Config{URL: url, Now: now, MaxClaims: storetest.MaxClaims, CPU: fair.NewCPU(2, time.Now)})
		}
	})
}
