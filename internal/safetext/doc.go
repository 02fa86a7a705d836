// SPDX-License-Identifier: Apache-2.0

// Package safetext makes characters visible that a terminal, an editor or a browser would
// obey or hide: text in telemetry is chosen by its sender.
package safetext
