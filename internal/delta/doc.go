// SPDX-License-Identifier: Apache-2.0

// Package delta holds the mergeable facts that judging telemetry leaves behind,
// keyed by organization, service, rule and window bucket.
//
// Every fact merges commutatively and associatively: counts add, sets unite,
// bounded lists keep their smallest items, examples keep the newest. So facts of
// many requests, and of many replicas, end in the same state whatever their
// order. Nothing here knows a rule's text, a clock or a store.
package delta
