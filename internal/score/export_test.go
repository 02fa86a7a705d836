// SPDX-License-Identifier: Apache-2.0

package score

// MaxFacts is maxFacts.
const MaxFacts = maxFacts
