// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// linkRemoved replaces a URL.
const linkRemoved = "(link removed)"

// urlShape matches URLs of any scheme, and texts that Markdown renderers link automatically.
var urlShape = regexp.MustCompile("(?i)[a-z][a-z0-9+.-]*://[^\\s<>\"'`|]+|www\\.[^\\s<>\"'`|]+")

// trimURL removes trailing punctuation from a URL.
func trimURL(u string) string { return strings.TrimRight(u, ".,;:!?)]}*_") }

// linkShape matches URLs that all parsers parse alike: no user, port, escape or bracket, and no second URL.
var linkShape = regexp.MustCompile(`^https?://[A-Za-z0-9.-]+(/[A-Za-z0-9/._#?=+,-]*)?$`)

// linkTo reports whether u is a URL of one of the hosts.
func linkTo(u string, hosts map[string]bool) bool {
	if !linkShape.MatchString(u) {
		return false
	}
	parsed, err := url.Parse(u)
	return err == nil && hosts[strings.ToLower(parsed.Host)] && !strings.Contains(strings.ToLower(parsed.Path), "www.")
}

// ownURL reports whether a URL in code refers to the reader's own systems: a placeholder, a host without a domain or
// in a private one, or a private or loopback address.
func ownURL(u string) bool {
	_, rest, ok := strings.Cut(u, "://")
	if !ok {
		return false
	}
	host, _, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(host, "@\\") {
		return false
	}
	if strings.ContainsAny(host, "${}*") {
		return true
	}
	parsed, err := url.Parse("//" + host)
	if err != nil {
		return false
	}
	host = strings.ToLower(strings.TrimSuffix(parsed.Hostname(), "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsUnspecified()
	}
	if !strings.Contains(host, ".") {
		// A number alone is an address.
		return strings.Trim(host, "0123456789abcdefx") != ""
	}
	for _, private := range []string{".local", ".internal", ".localhost", ".svc"} {
		if strings.HasSuffix(host, private) {
			return true
		}
	}
	return false
}

// hostsOf returns the hosts that Markdown texts of this program link to.
func hostsOf(texts ...string) map[string]bool {
	hosts := make(map[string]bool)
	for _, t := range texts {
		source := []byte(t)
		// The walker never fails.
		_ = ast.Walk(markdown.Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			var destination []byte
			switch n := n.(type) {
			case *ast.Link:
				destination = n.Destination
			case *ast.AutoLink:
				destination = n.URL(source)
			}
			if u, err := url.Parse(string(destination)); err == nil && entering && u.Host != "" {
				hosts[strings.ToLower(u.Host)] = true
			}
			return ast.WalkContinue, nil
		})
	}
	return hosts
}
