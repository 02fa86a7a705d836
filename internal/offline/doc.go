// SPDX-License-Identifier: Apache-2.0

// Package offline scores recorded telemetry: files of OTLP go in, a report comes
// out. It runs the same judge, store and scorer as a server, on a store of its
// own that it throws away, with the window ending at the newest timestamp read.
package offline
