// SPDX-License-Identifier: Apache-2.0

package session

import (
	"net/url"
	"strings"
	"unicode"
)

// maxReturn is the longest address to go back to that is remembered, in bytes.
const maxReturn = 2000

// LocalPath returns the path and query of an address when it is one of this server, else
// the first page. Browsers read a backslash as a slash and skip control characters, so
// neither is let through.
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

// safeReturn returns where to go after signing in: LocalPath, and nowhere in this
// package.
func safeReturn(back string) string {
	back = LocalPath(back)
	if u, err := url.Parse(back); err != nil || isOwn(u.Path) {
		return "/"
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
