// SPDX-License-Identifier: Apache-2.0

// Package inspect is what an operator is told about a store, whatever its kind: how
// far its schema is beside the program's, and what is in it.
package inspect
