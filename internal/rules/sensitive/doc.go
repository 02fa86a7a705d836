// SPDX-License-Identifier: Apache-2.0

// Package sensitive finds data that should not be in telemetry: e-mail
// addresses, payment card numbers, social security numbers, IBANs,
// credentials, and secrets that are known by the name they stand under.
//
// One detector serves the rules RES-010, SPA-006, MET-008 and LOG-003. It
// tells what kind of data it found and never returns the data itself; [Clean]
// returns a text without it.
//
// # How it works
//
// A text is read once, byte by byte, against a table of trigger bytes: digits,
// '@', '%', '=', ':', '-', '_', 'J', 'A' and 'B'. Everything else is skipped.
// At a trigger the bytes around it decide, so ordinary log lines cost a table
// lookup per byte and a few comparisons per trigger. Each detector looks at a
// bounded neighbourhood or at a region that no other trigger of its kind looks
// at, which keeps the whole scan linear in the length of the text, also for
// texts made to be slow.
//
// All functions are pure and safe for concurrent use. Those that find nothing
// allocate nothing.
package sensitive
