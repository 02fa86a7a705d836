// SPDX-License-Identifier: Apache-2.0

// Package demo simulates a small shop whose services send OTLP. Some are healthy, each of the others has its own
// mistakes. All names are invented.
//
// A generator (fleet.go) generates the telemetry of the services at a time, a batch (batch.go) collects it, and Run
// (run.go) sends it over gRPC and HTTP at a steady rate, after some history.
package demo
