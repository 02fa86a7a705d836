// SPDX-License-Identifier: Apache-2.0

// Package fair shares what is scarce between keys, which are organizations here: one
// that asks for much waits for itself and not before the others.
//
// Where something is full, no key may have more of it than is free (the dynamic
// threshold of Choudhury and Hahne, "Dynamic queue length thresholds for
// shared-memory packet switches", 1998): one greedy key gets half of it, two get a
// third each, and there is always room for one that asks for little. It needs no
// count of keys and no share for each of them.
package fair
