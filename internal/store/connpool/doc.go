// SPDX-License-Identifier: Apache-2.0

// Package connpool shares the connections of a store. Each transaction belongs to a pool
// according to its purpose; organizations take turns within a pool. Neither the reads of
// one organization nor scoring can take the connections of other work.
package connpool
