// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"testing"

	"go.uber.org/goleak"

	"assay/internal/store/postgres/pgtest"
)

var server *pgtest.Server

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.With(m, pgtest.Config{}, &server)) }
