// SPDX-License-Identifier: Apache-2.0

// Package delta defines the mergeable facts that the evaluation of telemetry produces, keyed by organization,
// service, rule and window bucket.
//
// Merging is commutative and associative: counts are added, sets united, bounded lists keep their smallest items, and
// examples the newest. So the facts of many requests and replicas result in the same state in any order. The package
// does not depend on rule texts, clocks or stores.
package delta
