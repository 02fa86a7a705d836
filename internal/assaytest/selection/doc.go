// SPDX-License-Identifier: Apache-2.0

// Package selection selects and sorts what lists contain, in memory: for fakes of stores, and to compare stores with.
package selection
