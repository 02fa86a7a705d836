// SPDX-License-Identifier: Apache-2.0

// Command collector is an OpenTelemetry Collector with only an OTLP receiver and a no-op
// exporter. The ingest benchmark compares assay with it. It is a separate module, so that
// assay does not depend on the Collector.
package main
