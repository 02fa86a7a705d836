// SPDX-License-Identifier: Apache-2.0

// Command bench measures assay against its neighbours in one run: pdata and a walk
// of the wire views for the engine, an OpenTelemetry Collector for ingest, and the
// REST API on a store of 2,000 services, and pages of a million insights beside SQL and
// a handler that only writes. It prints tables with ratios and compares
// them with the targets; what it times it also checks. docs/benchmarks.md says what
// is compared and how the inputs vary.
package main
