// SPDX-License-Identifier: Apache-2.0

package fair

import "net/netip"

// AddressOf returns the prefix by which clients are counted: an IPv4 address, or the /64 of an IPv6 address, because
// one client usually has a whole /64. All addresses that are not IP addresses, such as Unix sockets, share the zero
// Prefix.
func AddressOf(remoteAddr string) netip.Prefix {
	a, err := netip.ParseAddrPort(remoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	address, bits := a.Addr().Unmap().WithZone(""), 64
	if address.Is4() {
		bits = 32
	}
	prefix, _ := address.Prefix(bits) // fails only for an invalid number of bits
	return prefix
}
