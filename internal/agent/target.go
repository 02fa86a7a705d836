// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"assay"
)

// parseBase reads the URL of the backend. Its path ends without a slash.
func parseBase(s string) (*url.URL, error) {
	u, err := parseURL(s)
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

func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("not a URL") // the error of Parse would show a password
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("has to begin with https:// or http://")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("has to be without user, query and fragment")
	}
	return u, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// target returns the URL of a call: the bytes of path and query below the
// backend's own URL. It refuses what net/http would write differently, and what
// servers are known to take for a way to another place.
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

// staysBelow tells whether a path that is put after another one cannot lead out of
// that. It is stricter than RFC 3986: some servers take a backslash for a slash, and
// some drop what follows a semicolon before they look for dot segments.
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
	return &assay.Error{
		Code: assay.CodeInvalid, Message: "the request cannot be forwarded",
		Details: map[string]string{field: text},
	}
}

// forwardedField returns the value of the header Forwarded (RFC 7239). Who calls is
// not the backend's business beyond what the token says.
func forwardedField(publicURL string) (string, error) {
	const field = "by=_assay;for=unknown"
	if publicURL == "" {
		return field, nil
	}
	u, err := parseURL(publicURL)
	if err != nil {
		return "", err
	}
	return field + ";host=" + strconv.Quote(u.Host) + ";proto=" + u.Scheme, nil
}
