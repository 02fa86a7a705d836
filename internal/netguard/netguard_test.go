// SPDX-License-Identifier: Apache-2.0

package netguard

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700:4700::1111": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "::1": false, "0.0.0.0": false, "::": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false,
		"169.254.169.254": false, "100.64.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false, "168.63.129.16": false, "168.63.129.17": true,
		"fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "ff02::1": false, "fec0::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::7f00:1": false,
		"64:ff9b::7f00:1": false, "64:ff9b:1::a00:1": false, "2002:7f00:1::": false, "2001::1": false, "2001:db8::1": false,
		"5f00::1": false, "3fff::1": false, "2001:20::1": false, "4000::1": false,
	} {
		require.Equal(t, want, Public(netip.MustParseAddr(address)), address)
	}
	require.False(t, Public(netip.Addr{}))
}

// TestControl requires that a dialer refuses a private address before it connects.
func TestControl(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	d := net.Dialer{Control: Control}
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0"} {
		_, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		require.ErrorIs(t, err, ErrPrivate, host)
	}
	require.ErrorIs(t, Control("tcp", "nonsense", nil), ErrPrivate)
	require.NoError(t, Control("tcp", "8.8.8.8:443", nil))
}
