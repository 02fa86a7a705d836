// SPDX-License-Identifier: Apache-2.0

// Package fold adds the facts of a commit to the values that a store keeps encoded:
// what every store does between reading the rows of a service and writing them.
// Nothing in it touches a store.
package fold
