// SPDX-License-Identifier: Apache-2.0

// Package logvolumetest provides, for tests, a directory with log volume of an earlier version.
package logvolumetest
