// SPDX-License-Identifier: Apache-2.0

// Package merge merges the facts of a commit into the encoded values of a store. It
// implements the steps between reading and writing the rows of a service that all stores
// share. It does not access a store.
package merge
