// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/url"
	"strings"

	"assay"
	"assay/internal/netguard"
)

// parseBase parses the URL of the backend. It removes a trailing slash from the path.
func parseBase(s string) (*url.URL, error) {
	u, err := netguard.ParseURL(s)
	if err != nil {
		return nil, err
	}
	escaped := strings.TrimRight(u.EscapedPath(), "/")
	u.Path, err = url.PathUnescape(escaped)
	if err != nil {
		return nil, errors.New("has a path that is not escaped correctly")
	}
	u.RawPath = escaped
	return u, nil
}

// target returns the URL of a call: path and query, unchanged, below the backend's URL. It refuses paths that net/http
// would rewrite, and paths that some servers resolve to another location.
func (g *Gateway) target(path, query string) (*url.URL, error) {
	plain, err := url.PathUnescape(path)
	if err != nil || !staysBelow(path) {
		return nil, invalid("path", "must not have empty or dot segments or an escaped slash")
	}
	for i := range len(query) {
		if query[i] <= ' ' || query[i] == 0x7f {
			return nil, invalid("query", "must not have a space or a control character")
		}
	}
	u := &url.URL{
		Scheme: g.base.Scheme, Host: g.base.Host,
		Path: g.base.Path + plain, RawPath: g.base.RawPath + path, RawQuery: query,
	}
	if u.EscapedPath() != u.RawPath {
		return nil, invalid("path", "must be escaped")
	}
	return u, nil
}

// staysBelow reports whether a path stays below the path that it is appended to. It is stricter than RFC 3986: some
// servers treat a backslash as a slash, and some remove path parameters after a semicolon before they resolve dot
// segments.
func staysBelow(path string) bool {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return false
	}
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "" && more {
			return false
		}
		plain, err := url.PathUnescape(segment)
		if err != nil || strings.Contains(plain, "/") {
			return false
		}
		for part := range strings.SplitSeq(plain, `\`) {
			part, _, _ = strings.Cut(part, ";")
			if part == "." || part == ".." {
				return false
			}
		}
	}
	return true
}

func invalid(field, text string) error {
	return assay.Invalid(map[string]string{field: text})
}
