// SPDX-License-Identifier: Apache-2.0

package session

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// maxReturn is the maximum length of a return address, in bytes.
const maxReturn = 2000

// LocalPath returns the path and query of an address on this server. For any other address it returns the path of the
// first page. Browsers treat a backslash as a slash and skip control characters, so addresses with either are refused.
func LocalPath(address string) string {
	const first = "/"
	if len(address) > maxReturn || !strings.HasPrefix(address, "/") || strings.HasPrefix(address, "//") ||
		strings.ContainsRune(address, '\\') || strings.ContainsFunc(address, unicode.IsControl) {
		return first
	}
	u, err := url.Parse(address)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil {
		return first
	}
	u.Fragment = ""
	if address = u.String(); strings.HasPrefix(address, "//") || len(address) > maxReturn {
		return first
	}
	return address
}

// safeReturn returns the target after signing in: LocalPath, except for the paths of this package.
func safeReturn(back string) string {
	back = LocalPath(back)
	if u, err := url.Parse(back); err != nil || isOwn(u.Path) {
		return "/"
	}
	return back
}

// isOwn reports whether this package serves the path. Such a path is no target after signing in.
func isOwn(path string) bool {
	return slices.ContainsFunc([]string{SignInPath, SignOutPath}, func(own string) bool { return path == own || strings.HasPrefix(path, own+"/") })
}
