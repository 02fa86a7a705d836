// SPDX-License-Identifier: Apache-2.0

// Package rules judges OTLP requests: one pass over the bytes of a request asks
// all rules of package catalog and leaves mergeable facts.
//
// A rule knows neither the store nor the clock. What depends on a resource or a
// scope is decided once per resource or scope, and verdicts on bytes seen before
// (is this attribute sensitive, is its key misplaced, is this unit valid) come
// from caches of fixed size. In steady state a record allocates nothing.
package rules
