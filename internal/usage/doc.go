// SPDX-License-Identifier: Apache-2.0

// Package usage computes how much telemetry an organization's services sent, its cost at given prices, and the saving
// from fixing their active insights.
package usage
