// SPDX-License-Identifier: Apache-2.0

// Package demo simulates a small shop whose services send OTLP: some as they
// should, each of the others with mistakes of its own. All names are invented.
//
// A generator (fleet.go) makes what the services send at a moment, a batch
// (batch.go) collects it, and Run (run.go) sends it over gRPC and HTTP at a
// steady pace, after some history.
package demo
