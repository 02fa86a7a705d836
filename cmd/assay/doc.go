// SPDX-License-Identifier: Apache-2.0

// Command assay judges OpenTelemetry data by the Instrumentation Score: as a
// server that takes OTLP in, and offline on recorded files.
//
// It is the only place that reads flags, the environment and files of settings,
// and the only one where the packages meet. Every command is a struct of flags
// with a Run method, in the file of its name.
//
// Exit codes: 0 done; 1 failed, or score's --min-score or --fail-on is not met; 2
// wrong usage or configuration, or score cannot read its input.
package main
