// SPDX-License-Identifier: Apache-2.0

// Package safetext escapes characters that a terminal, an editor or a browser interprets or hides. Text in telemetry
// is controlled by its sender.
package safetext
