// SPDX-License-Identifier: Apache-2.0

// Package faults sends load with known totals to real servers while it injects faults. It then verifies from
// the outside that no record was lost or counted twice and that no score differs.
//
// A Load is telemetry whose totals are known in advance. A Sender sends it like a Collector: it repeats the
// same bytes until they are acknowledged, and records the attempts in a Ledger. A Fleet is a set of server
// processes behind Proxies, which can cut, hold and delay connections. After the load, the state that clients
// see (State) and the content of the store (Verdicts) must be the same as in a run of the same load without
// faults.
//
// The scenarios are tests: short ones in `go test`, long ones with -faults.long (`make faults`). They need
// Linux: /proc, prlimit(2) and, for some, mounts.
package faults
