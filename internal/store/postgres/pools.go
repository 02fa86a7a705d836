// SPDX-License-Identifier: Apache-2.0

package postgres

import "assay/internal/store/connpool"

// Short names of the pools.
const (
	ownWork = connpool.OwnWork
	lookups = connpool.Lookups
	loads   = connpool.Loads
	scoring = connpool.Scoring
	pages   = connpool.Pages
)
