// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/internal/store/sqlite"
	"assay/internal/store/sqlite/fresh"
	"assay/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB, now func() time.Time) storetest.Opener {
		path := fresh.Path(t)
		return func() (storetest.Store, error) {
			// Handles that race each other for the lock are served in no order: only the test's own end limits the wait.
			return sqlite.Open(t.Context(), sqlite.Config{
				Path: path, Migrate: true, Now: now, MaxClaims: storetest.MaxClaims, BusyTimeout: time.Hour,
			})
		}
	})
}
