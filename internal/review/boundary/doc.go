// SPDX-License-Identifier: Apache-2.0

// Package boundary checks that a change of a source file adds telemetry to a boundary: code where a service receives or
// sends. It compares the facts of package instrumentation before and after the change.
package boundary
