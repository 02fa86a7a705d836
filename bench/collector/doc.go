// SPDX-License-Identifier: Apache-2.0

// Command collector is an OpenTelemetry Collector that has an OTLP receiver and a
// no-op exporter and nothing else: what the ingest benchmark measures assay
// against. It is a module of its own, so that assay depends on none of it.
package main
