// SPDX-License-Identifier: Apache-2.0

// Package codec encodes facts for the columns that a store keeps as one value: the counts
// of a service, its examples and its evidence items. A service has some twenty of each,
// which are always read and written together, so one value of about a hundred bytes
// replaces twenty rows.
//
// The package also defines the stored numbers of statuses, signals and severities, and
// the encoding of the attributes of insights.
//
// A rule has a stored number that never changes. Its index in the catalog depends on the
// build and is never stored.
package codec
