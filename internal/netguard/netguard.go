// SPDX-License-Identifier: Apache-2.0

package netguard

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
)

// ErrPrivate reports an address that is not public. It does not say which one, and so does not describe the network of
// the server.
var ErrPrivate = errors.New("the address is not public")

// private are the networks that are not public, besides those that net/netip knows.
// Source: IANA special-purpose address registries.
var private = func() (all []netip.Prefix) {
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4",
		// The services of Azure for its virtual machines. Source: "What is IP address 168.63.129.16?" of its documentation.
		"168.63.129.16/32",
		// Of IPv6, addresses that embed IPv4 addresses (Teredo, 6to4), identifiers without routes, and documentation.
		"2001::/32", "2001:10::/28", "2001:20::/28", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}()

// global6 has all public IPv6 addresses. Outside of it are NAT64, IPv4-compatible and site-local addresses, among others.
var global6 = netip.MustParsePrefix("2000::/3")

// Public reports whether an address belongs to the public Internet.
func Public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Is6() && !global6.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(private, func(p netip.Prefix) bool { return p.Contains(a) })
}

// IsLoopback reports whether the host of a URL, a name or an address, is this machine. Browsers resolve localhost to it
// too, and ask no DNS server for it.
func IsLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// Control is the Control of a net.Dialer that connects to public addresses only. The dialer calls it with each address
// after the resolution of a name, so a name cannot change between the check and the connection.
func Control(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || !Public(a.Addr()) {
		return ErrPrivate
	}
	return nil
}

// ParseURL parses the URL of a server in the configuration. It has a host and no user, query and fragment. Errors do
// not contain the URL.
func ParseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("not a URL") // the error of Parse could contain a password
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("has to begin with https:// or http://")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("has to be without user, query and fragment")
	}
	return u, nil
}
