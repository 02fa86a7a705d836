// SPDX-License-Identifier: Apache-2.0

package runtimes

import "bytes"

// version is a release: major, minor and patch. Missing components are 0.
type version [3]uint32

// maxComponent limits one component of a version. A version with a larger one is invalid.
const maxComponent = 1_000_000

// compare returns -1, 0 or 1 as v is older than, the same as or newer than w.
func (v version) compare(w version) int {
	for i := range v {
		switch {
		case v[i] < w[i]:
			return -1
		case v[i] > w[i]:
			return 1
		}
	}
	return 0
}

// parseVersion parses the version at the start of s, with or without a leading "v" or
// "go". It ignores the text after the first three components, so a pre-release counts as
// its release: builds and vendors append arbitrary text, as in "17.0.15+6-Debian",
// "1.8.0_392" and "go1.26.0 X:boringcrypto".
func parseVersion(s []byte) (v version, ok bool) {
	if rest, found := bytes.CutPrefix(s, []byte("go")); found {
		s = rest
	} else {
		s = bytes.TrimPrefix(s, []byte("v"))
	}
	for i := range v {
		n := 0
		for n < len(s) && '0' <= s[n] && s[n] <= '9' {
			v[i] = v[i]*10 + uint32(s[n]-'0')
			if v[i] >= maxComponent {
				return version{}, false
			}
			n++
		}
		if n == 0 {
			return v, i > 0
		}
		s = s[n:]
		if len(s) == 0 || s[0] != '.' {
			break
		}
		s = s[1:]
	}
	return v, true
}
