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

// errPrivate is for callers: it does not disclose the addresses of a name, nor whether a private address has the name.
var errPrivate = errors.New("the host does not exist, or it is in a private network and the server does not allow that (--agent-allow-private-hosts)")

var errNoHost = errors.New("the host does not exist")

// resolve returns the addresses of a host. All of them have to be public unless private ones are allowed.
func (g *git) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	none := errPrivate
	if g.cfg.PrivateHosts {
		none = errNoHost
	}
	addresses := []netip.Addr(nil)
	if a, err := netip.ParseAddr(host); err == nil {
		addresses = append(addresses, a)
	} else {
		// curl takes 127.1, 0x7f.1 and the like for addresses, a resolver may not.
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
