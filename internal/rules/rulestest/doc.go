// SPDX-License-Identifier: Apache-2.0

// Package rulestest builds small OTLP requests for the tests of packages that evaluate them.
package rulestest
