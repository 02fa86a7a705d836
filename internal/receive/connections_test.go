// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// remote is the server's side of a connection from an address.
type remote struct {
	net.Conn
	addr   string
	closed bool
}

func (r *remote) RemoteAddr() net.Addr { return address(r.addr) }

func (r *remote) Close() error {
	r.closed = true
	return nil
}

type address string

func (a address) Network() string { return "test" }
func (a address) String() string  { return string(a) }

// crowd is connections by name.
type crowd struct {
	*connections
	all map[string]*remote
}

func newCrowd(most int) *crowd {
	return &crowd{newConnections(HTTP, most, slog.New(slog.DiscardHandler)), make(map[string]*remote)}
}

// connect tells whether the connection was taken.
func (c *crowd) connect(name string) bool {
	c.all[name] = &remote{addr: name}
	return c.add(c.all[name]) != nil
}

// send has one request on a connection.
func (c *crowd) send(name, organization string) {
	on := c.begin(name)
	on.of(organization)
	on.end()
}

func (c *crowd) isOpen() (names []string) {
	for name, r := range c.all {
		if !r.closed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestConnectionsMakeRoom: the organization with the most connections makes room, with
// the one that was idle for longest.
func TestConnectionsMakeRoom(t *testing.T) {
	c := newCrowd(5)
	for i := range 3 {
		require.True(t, c.connect(fmt.Sprint("a", i)))
		c.send(fmt.Sprint("a", i), "a")
	}
	require.True(t, c.connect("b0"))
	c.send("b0", "b")
	require.True(t, c.connect("new"))
	c.send("a0", "a")
	c.send("nobody", "a")

	require.True(t, c.connect("b1"))
	require.Equal(t, []string{"a0", "a2", "b0", "b1", "new"}, c.isOpen(), "a has the most")
	c.send("b1", "b")
	busy := c.begin("b0")
	require.True(t, c.connect("x1"))
	require.True(t, c.connect("x2"))
	require.Len(t, c.isOpen(), 5)
	require.Contains(t, c.isOpen(), "b0", "it has a request")
	require.Contains(t, c.isOpen(), "x2", "who comes last")
	for i := range 50 { // whoever opens connections without end closes his own
		require.True(t, c.connect(fmt.Sprint("y", i)))
	}
	require.Contains(t, c.isOpen(), "y49")
	require.Contains(t, c.isOpen(), "y48")
	require.Contains(t, c.isOpen(), "b0")
	c.send("y48", "late")
	for i := range 50 {
		require.True(t, c.connect(fmt.Sprint("z", i)))
	}
	require.Contains(t, c.isOpen(), "y48", "with a credential it is no longer one of them")
	busy.end()
	require.Equal(t, 5, c.count)
	require.EqualValues(t, 103, c.closed)
	require.Zero(t, c.refused)
}

// TestConnectionsAllBusy: nobody's request is cut off for a new connection.
func TestConnectionsAllBusy(t *testing.T) {
	c := newCrowd(2)
	var busy []*conn
	for _, name := range []string{"a", "b"} {
		require.True(t, c.connect(name))
		busy = append(busy, c.begin(name))
		busy[len(busy)-1].of(name)
	}
	second := c.begin("a")
	require.False(t, c.connect("c"))
	busy[0].end()
	require.False(t, c.connect("c"), "a has another request")
	require.True(t, c.all["c"].closed)
	require.EqualValues(t, 2, c.refused)
	second.end()
	require.True(t, c.connect("c"))
	require.True(t, c.all["a"].closed)
	require.Nil(t, c.begin("a"))
	busy[1].end()
	require.Equal(t, []string{"b", "c"}, c.isOpen())
}

// TestConnectionsAreCounted: whatever happens, the counts are those of what is open.
func TestConnectionsAreCounted(t *testing.T) {
	const most = 6
	r := rand.New(rand.NewPCG(1, 2))
	c := newCrowd(most)
	live, requests := make(map[string]*conn), make([]*conn, 0)
	for i := range 1500 {
		name := fmt.Sprint(r.IntN(2 * most))
		if i%200 == 0 {
			for _, on := range requests {
				on.end()
			}
			requests = requests[:0]
		}
		switch r.IntN(4) {
		case 0:
			if live[name] == nil || live[name].gone {
				if on := c.add(&remote{addr: name}); on != nil {
					live[name] = on
				}
			}
		case 1:
			if on := c.begin(name); on != nil {
				on.of(fmt.Sprint(i % 3))
				requests = append(requests, on)
			}
		case 2:
			if len(requests) > 0 && i%3 == 0 {
				requests[0].end()
				requests = requests[1:]
			}
		default:
			if live[name] != nil && i%7 == 0 {
				require.NoError(t, live[name].Close())
				require.NoError(t, live[name].Close())
			}
		}
		n := 0
		for _, share := range c.shares {
			require.Positive(t, share.Len())
			n += share.Len()
		}
		require.LessOrEqual(t, n, most)
		require.Equal(t, []int{n, n}, []int{c.count, len(c.open)})
	}
	require.Positive(t, c.closed)
	require.Positive(t, c.refused)
}

// TestCrowdedIsLogged now and then.
func TestCrowdedIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newCrowd(2)
		c.log = slog.New(slog.NewTextHandler(&log, nil))
		lines := func() []string {
			defer log.Reset()
			return strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")[:strings.Count(log.String(), "\n")]
		}
		c.connect("a")
		c.connect("b")
		require.Empty(t, lines())
		c.connect("c")
		first := lines()
		require.Len(t, first, 1)
		require.Contains(t, first[0], "transport=http limit=2 closed=1 refused=0")
		for i := range 10 {
			c.connect(fmt.Sprint(i))
		}
		require.Empty(t, lines())
		time.Sleep(crowdedInterval)
		c.begin("8")
		c.begin("9")
		require.False(t, c.connect("d"))
		later := lines()
		require.Len(t, later, 1)
		require.Contains(t, later[0], "closed=10 refused=1")
	})
}
