// SPDX-License-Identifier: Apache-2.0

// Package rulestest builds small OTLP requests for the tests of everything that
// judges them.
package rulestest
