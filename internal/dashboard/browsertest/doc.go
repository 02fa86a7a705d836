// SPDX-License-Identifier: Apache-2.0

// Package browsertest drives a headless Chromium over pages of the dashboard, for
// tests and for pictures.
package browsertest
