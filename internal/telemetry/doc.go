// SPDX-License-Identifier: Apache-2.0

// Package telemetry is what assay tells about itself: its log and its metrics in
// the Prometheus format. Only the programs use it; other packages get a logger
// and count for themselves.
package telemetry
