// SPDX-License-Identifier: Apache-2.0

// Package sensitive detects data that should not be in telemetry: e-mail addresses,
// payment card numbers, social security numbers, IBANs, credentials, and secrets with a
// known name.
//
// One detector serves the rules RES-010, SPA-006, MET-008 and LOG-003. It returns the
// kind of the data and never the data itself. [Clean] returns a text without it.
//
// # How it works
//
// The detector reads a text once, byte by byte, against a table of trigger bytes: digits,
// '@', '%', '=', ':', '-', '_', 'J', 'A', 'B' and 'w'. It skips all other bytes. At a trigger
// it checks the bytes around it, so ordinary log lines cost a table lookup per byte and a
// few comparisons per trigger. Each detector checks a bounded neighbourhood, or a region
// that no other trigger of its kind checks. The whole scan is therefore linear in the
// length of the text, even for crafted texts.
//
// All functions are pure and safe for concurrent use. They allocate nothing if they find
// nothing.
package sensitive
