// SPDX-License-Identifier: Apache-2.0

// Package wiretest provides test support for code that reads OTLP requests: sample requests in the two field orders
// that senders use, malformed requests, and pdata as an oracle.
//
// It is for tests only. It panics when a helper is misused.
package wiretest
