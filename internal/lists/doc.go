// SPDX-License-Identifier: Apache-2.0

// Package lists has the function on slices that package slices lacks.
package lists
