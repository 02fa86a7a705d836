// SPDX-License-Identifier: Apache-2.0

// Command bench compares assay with other software in one run: with pdata for the engine, an OpenTelemetry
// Collector for ingest, and with SQL for pages of a million insights. It prints tables with ratios and compares
// them with the targets. It also verifies the results of the timed operations.
// docs/benchmarks.md describes the comparisons and the inputs.
package main
