// SPDX-License-Identifier: Apache-2.0

// Package usage works out what an organization's services sent, what that costs
// at given prices, and how much of it the fixes of their active insights would
// save.
package usage
