// SPDX-License-Identifier: Apache-2.0

// Package wiretest helps to test what reads OTLP requests: sample requests in
// the two field orders that occur in the wild, malformed ones, and pdata as the
// oracle for what a request says.
//
// It is for tests only. It panics where a helper is misused, because a test
// has nothing better to do then.
package wiretest
