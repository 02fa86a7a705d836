// SPDX-License-Identifier: Apache-2.0

// Package rules evaluates OTLP requests. One pass over the bytes of a request evaluates
// all rules of package catalog and returns mergeable facts.
//
// A rule does not access the store or the clock. Results that depend on a resource or a
// scope are computed once for each resource or scope. Verdicts on bytes (sensitive
// attribute, misplaced key, valid unit) come from caches of fixed size. In the steady
// state, a record allocates nothing.
package rules
