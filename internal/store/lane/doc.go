// SPDX-License-Identifier: Apache-2.0

// Package lane shares the connections of a store. Each transaction belongs to a lane
// according to its purpose; organizations take turns within a lane. Neither the reads of
// one organization nor scoring can take the connections of other work.
package lane
