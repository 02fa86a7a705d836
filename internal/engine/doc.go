// SPDX-License-Identifier: Apache-2.0

// Package engine is the way of one request: it judges the bytes, has the facts
// committed, and hands the spans on to the open traces. Closed traces come back
// as facts and go the same way.
package engine
