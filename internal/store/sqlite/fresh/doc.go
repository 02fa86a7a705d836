// SPDX-License-Identifier: Apache-2.0

// Package fresh makes new stores for tests. Only the first one of a process is migrated, which takes half a second with
// the race detector; the others are copies of its file.
package fresh
