// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"

	"assay/internal/netguard"
)

// errPrivate does not disclose the addresses of a host, nor whether a host in a private network exists.
var errPrivate = errors.New("the host does not exist, or it is in a private network and the server does not allow that (--agent-allow-private-hosts)")

var errNoHost = errors.New("the host does not exist")

// resolve returns the addresses of a host. It returns an error if one of them is not public, unless private addresses
// are allowed.
func (g *git) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	none := errPrivate
	if g.cfg.PrivateHosts {
		none = errNoHost
	}
	addresses := []netip.Addr(nil)
	if a, err := netip.ParseAddr(host); err == nil {
		addresses = append(addresses, a)
	} else {
		// curl parses names such as 127.1 and 0x7f.1 as addresses, and the resolver may not.
		last := host[strings.LastIndexByte(host, '.')+1:]
		if last == "" || last[0] >= '0' && last[0] <= '9' {
			return nil, none
		}
		if addresses, err = g.lookup(ctx, host); err != nil || len(addresses) == 0 {
			return nil, none
		}
	}
	for i, a := range addresses {
		addresses[i] = a.Unmap()
		if !g.cfg.PrivateHosts && !netguard.Public(a) {
			return nil, errPrivate
		}
	}
	return addresses, nil
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}
