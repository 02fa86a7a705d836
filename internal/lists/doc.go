// SPDX-License-Identifier: Apache-2.0

// Package lists has the functions on slices that package slices lacks.
package lists
