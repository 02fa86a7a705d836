// SPDX-License-Identifier: Apache-2.0

// Package assaytest runs the program as a child process: it finds the binary, starts
// servers on free loopback ports, sends them requests, reads what they count, and ends
// them. The end-to-end tests, the fault tests, the benches and the tests of the command
// share it.
package assaytest
