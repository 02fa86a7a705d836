// SPDX-License-Identifier: Apache-2.0

// Package codec encodes facts for the columns that a store keeps as one value:
// the counts of a service, its examples and its evidence items. A service has
// some twenty of each and they are always read and written together, so one
// value of about a hundred bytes stands for twenty rows.
//
// It also has the numbers that stand for statuses, signals and severities, and the
// encoding of the attributes of insights.
//
// Rules are encoded by numbers of their own that never change, not by their
// index in the catalog, which belongs to one build.
package codec
