// SPDX-License-Identifier: Apache-2.0

package session

import (
	"net/url"
	"strings"
	"unicode"
)

// maxReturn is the longest address to go back to that is remembered, in bytes.
const maxReturn = 2000

// safeReturn returns where to go after signing in: the path and query of back when
// it is a page of this server, else the first page. Browsers read a backslash as a
// slash and skip control characters, so neither is let through.
func safeReturn(back string) string {
	const first = "/"
	if len(back) > maxReturn || !strings.HasPrefix(back, "/") || strings.HasPrefix(back, "//") ||
		strings.ContainsRune(back, '\\') || strings.ContainsFunc(back, unicode.IsControl) {
		return first
	}
	u, err := url.Parse(back)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || isOwn(u.Path) {
		return first
	}
	u.Fragment = ""
	if back = u.String(); strings.HasPrefix(back, "//") || len(back) > maxReturn {
		return first
	}
	return back
}

// isOwn tells whether a path is one of this package, where nobody wants to go back to.
func isOwn(path string) bool {
	for _, own := range []string{SignInPath, SignOutPath} {
		if path == own || strings.HasPrefix(path, own+"/") {
			return true
		}
	}
	return false
}
