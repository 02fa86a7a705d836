// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// version is the version of a dependency in a manifest: an operator and a lower bound.
type version struct {
	operator            string // "" and "==" for exact, "^", "~", "~=", "~>", ">=" and the like
	major, minor, patch int    // -1 if the manifest has none
	suffix              string // "b0", "-alpha"
}

var versionText = regexp.MustCompile(`^\s*(\^|~=|~>|~|===?|=|>=|>)?\s*v?(\d{1,6})(?:\.(\d{1,6}|x|\*))?(?:\.(\d{1,6}|x|\*))?([A-Za-z0-9.+-]*)\s*`)

// parseVersion parses a version of any ecosystem. For a range, it returns the lower bound. It returns false for
// alternatives, tags and addresses.
func parseVersion(s string) (v version, ok bool) {
	m := versionText.FindStringSubmatch(s)
	if m == nil || strings.Contains(s, "||") {
		return v, false
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			return -1
		}
		return n
	}
	v = version{operator: m[1], major: number(m[2]), minor: number(m[3]), patch: number(m[4]), suffix: m[5]}
	if rest := s[len(m[0]):]; rest != "" {
		v.operator = ">=" // a range with an upper bound
	}
	if v.minor < 0 && v.operator == "" {
		v.operator = "^"
	}
	return v, true
}

// pinned reports whether an installation gets exactly this release.
func (v version) pinned() bool {
	return (v.operator == "" || v.operator == "=" || v.operator == "==" || v.operator == "===") && v.minor >= 0
}

// compatible reports whether an installation gets this release or a later one of the same minor or major version.
func (v version) compatible() bool {
	return v.pinned() || v.operator == "^" || v.operator == "~" || v.operator == "~=" || v.operator == "~>"
}

func (v version) String() string {
	return fmt.Sprintf("%d.%d.%d", v.major, max(v.minor, 0), max(v.patch, 0))
}

// latest returns the latest release that the version of a runtime includes: "18" and ">=18.0.0" include all of 18.
func (v version) latest() string {
	if v.minor < 0 || v.minor == 0 && v.patch <= 0 && !v.pinned() {
		return fmt.Sprintf("%d.999.999", v.major)
	}
	if v.patch < 0 {
		return fmt.Sprintf("%d.%d.999", v.major, v.minor)
	}
	return v.String()
}
