// SPDX-License-Identifier: Apache-2.0

package postgres

import "assay/internal/store/lane"

// Short names of the lanes.
const (
	ownWork = lane.OwnWork
	lookups = lane.Lookups
	loads   = lane.Loads
	scoring = lane.Scoring
	pages   = lane.Pages
)
