// SPDX-License-Identifier: Apache-2.0

// Package faults drives load with known totals against real servers while things
// break, and proves from the outside that nothing was lost, counted twice or scored
// differently.
//
// A Load is telemetry whose totals are known before it is sent. A Sender sends it as
// Collectors do, the same bytes again until they are acknowledged, and writes a
// Ledger. A Fleet is processes of the program behind Proxies that can cut, hold and
// delay what passes. What clients see afterwards (State) and what the store holds
// (Verdicts) has to be what a run of the same load without faults has left.
//
// The scenarios are tests: short ones in `go test`, long ones with -faults.long
// (`make faults`). They need Linux: /proc, prlimit(2) and, for some, mounts.
package faults
