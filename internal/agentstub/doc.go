// SPDX-License-Identifier: Apache-2.0

// Package agentstub is a stand-in for the agent backend: for development and
// demonstrations, not the backend of a product. It reads no code and changes none.
// What it keeps is invented, kept in memory and gone when the program ends.
//
// It answers the eighteen operations that assay forwards (operations.go) with
// believable resources that behave: runs (run.go) go through their phases as time
// passes, leave an append-only timeline of events, and change findings
// (finding.go) and repositories (repository.go) when they end. Nothing runs beside
// requests: what a run has done by now follows from the clock.
//
// Callers are known by the token that assay signs (token.go, keys.go), verified as a
// real backend must. Every organization has a world of its own (organization.go),
// and everything that grows has a bound.
package agentstub
