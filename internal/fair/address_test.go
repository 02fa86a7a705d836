// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddressOf(t *testing.T) {
	for _, c := range []struct{ a, b string }{
		{"192.0.2.1:1", "192.0.2.1:65535"},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:2"},
		{"[2001:db8:1:2::1]:1", "[2001:db8:1:2:ffff:ffff:ffff:ffff]:2"},
		{"[fe80::1%eth0]:1", "[fe80::2%eth1]:1"},
		{"", "bufconn"},
	} {
		require.Equal(t, AddressOf(c.a), AddressOf(c.b), "%s and %s", c.a, c.b)
	}
	seen := map[netip.Prefix]string{}
	for _, address := range []string{
		"192.0.2.1:1", "192.0.2.2:1", "[2001:db8:1:2::1]:1", "[2001:db8:1:3::1]:1", "[::1]:1", "127.0.0.1:1", "@", "[fe80::1%eth0]:1",
	} {
		prefix := AddressOf(address)
		require.NotContains(t, seen, prefix, address)
		seen[prefix] = address
	}
}

func FuzzAddressOf(f *testing.F) {
	for _, address := range []string{"192.0.2.1:1", "[::1%lo]:1", "[::ffff:1.2.3.4]:0", "", "a:b", ":", "[::]:99999"} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		p := AddressOf(address)
		if p != (netip.Prefix{}) && (!p.IsValid() || p.Masked() != p || p.Addr().Zone() != "") {
			t.Fatalf("%q is %v", address, p)
		}
	})
}
