// SPDX-License-Identifier: Apache-2.0

// Package lane shares the connections of a store. Transactions are grouped by their
// purpose into lanes, and within a lane organizations take turns, so that neither what one
// organization reads nor scoring takes the connections that everything else needs.
package lane
