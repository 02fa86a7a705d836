// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const leaseTTL = 10 * time.Second

// acquire acquires leases through a handle and returns the held ones, sorted.
func (s *suite) acquire(st Store, holder string, ttl time.Duration, names ...string) []string {
	s.t.Helper()
	held, now := must2(st.AcquireLeases(s.ctx(), holder, names, ttl))(s.t)
	require.Equal(s.t, micro(s.clock.now()), now.UTC(), "the store's time")
	slices.Sort(held)
	return held
}

func (s *suite) leaseNames(prefix string, want ...string) {
	s.t.Helper()
	got := must(s.LeaseNames(s.ctx(), prefix))(s.t)
	if len(want) == 0 {
		require.Empty(s.t, got)
		return
	}
	require.Equal(s.t, want, got)
}

func (s *suite) TestLeases(t *testing.T) {
	b := s.handle()
	s.leaseNames("")
	require.Empty(t, s.acquire(s, "A", leaseTTL), "no lease was requested")

	// A replica acquires free leases and not those of other holders.
	require.Equal(t, []string{"x:1", "x:2"}, s.acquire(s, "A", leaseTTL, "x:2", "x:1", "x:2"))
	require.Equal(t, []string{"y"}, s.acquire(b, "B", leaseTTL, "x:1", "y"))
	require.Empty(t, s.acquire(b, "B", leaseTTL, "x:1"))
	s.leaseNames("x:", "x:1", "x:2")
	s.leaseNames("", "x:1", "x:2", "y")
	s.leaseNames("x:1", "x:1")
	s.leaseNames("x%")
	s.leaseNames("X")

	// A replica renews its own lease if it asks for it.
	s.clock.advance(leaseTTL - time.Second)
	require.Equal(t, []string{"x:1"}, s.acquire(s, "A", leaseTTL, "x:1"))
	s.clock.advance(time.Second - time.Microsecond)
	s.leaseNames("x:", "x:1", "x:2")
	s.clock.advance(time.Microsecond)
	s.leaseNames("x:", "x:1")

	// Any replica can acquire an expired lease, including the last holder.
	require.Equal(t, []string{"x:2"}, s.acquire(b, "B", leaseTTL, "x:1", "x:2"))
	require.Equal(t, []string{"x:1", "y"}, s.acquire(s, "A", leaseTTL, "x:1", "x:2", "y"), "B did not renew y")
	s.clock.advance(time.Hour)
	s.leaseNames("")
	require.Equal(t, []string{"x:1"}, s.acquire(s, "A", leaseTTL, "x:1"))
	require.Equal(t, []string{"x:2", "y"}, s.acquire(b, "B", leaseTTL, "x:1", "x:2", "y"))

	// A shorter time to live shortens the lease; zero releases it.
	require.Equal(t, []string{"x:2"}, s.acquire(b, "B", time.Second, "x:2"))
	require.Empty(t, s.acquire(b, "B", 0, "y", "x:1"))
	s.leaseNames("", "x:1", "x:2")
	require.Equal(t, []string{"y"}, s.acquire(s, "A", leaseTTL, "y"))
	s.clock.advance(time.Second)
	require.Equal(t, []string{"x:2"}, s.acquire(s, "A", leaseTTL, "x:2"))

	// Release all leases of A, and none of another holder.
	require.Equal(t, []string{"z"}, s.acquire(b, "B", leaseTTL, "z"))
	require.NoError(t, s.ReleaseLeases(s.ctx(), "nobody"))
	require.NoError(t, s.ReleaseLeases(s.ctx(), "A"))
	s.leaseNames("", "z")
	require.Equal(t, []string{"x:1", "x:2", "y"}, s.acquire(b, "B", leaseTTL, "x:1", "x:2", "y"))

	// Long expired leases are deleted.
	require.EqualValues(t, 4, s.rows()["leases"])
	s.clock.advance(leaseTTL + 24*time.Hour - time.Second)
	s.expire(0, 0)
	require.EqualValues(t, 4, s.rows()["leases"])
	s.clock.advance(2 * time.Second)
	require.Equal(t, []string{"z"}, s.acquire(b, "B", leaseTTL, "z"))
	s.expire(0, 0)
	require.EqualValues(t, 1, s.rows()["leases"])
	s.leaseNames("", "z")

	// After the clock steps back, as in a failover, replicas do not wait until it reaches
	// its former time.
	s.clock.advance(-time.Second)
	s.leaseNames("", "z")
	require.Empty(t, s.acquire(s, "A", leaseTTL, "z"))
	s.clock.advance(-time.Hour)
	s.leaseNames("")
	require.Equal(t, []string{"z"}, s.acquire(s, "A", leaseTTL, "z"))
	require.Empty(t, s.acquire(b, "B", leaseTTL, "z"))
	s.leaseNames("", "z")
	s.clock.advance(time.Hour)
	s.leaseNames("")

	// No lease is longer than that.
	require.Equal(t, []string{"z"}, s.acquire(s, "A", time.Hour, "z"))
	s.leaseNames("", "z")
	s.clock.advance(time.Minute)
	require.Equal(t, []string{"z"}, s.acquire(b, "B", leaseTTL, "z"))
}

// TestManyLeases renews the leases of a replica of ten thousand organizations.
func (s *suite) TestManyLeases(t *testing.T) {
	const n = 10_000
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("score:%05d", i)
	}
	require.Equal(t, names[:n/2], s.acquire(s, "A", leaseTTL, names[:n/2]...))
	require.Equal(t, names[n/2:], s.acquire(s.handle(), "B", leaseTTL, names...))
	s.clock.advance(time.Second)
	require.Equal(t, names[:n/2], s.acquire(s, "A", leaseTTL, names...))
	s.leaseNames("score:", names...)
	s.clock.advance(leaseTTL - time.Second)
	s.leaseNames("score:", names[:n/2]...)
	require.Equal(t, names, s.acquire(s, "A", leaseTTL, names...))
	require.NoError(t, s.ReleaseLeases(s.ctx(), "A"))
	require.Zero(t, s.rows()["leases"])
}

// TestLeaseRace: holders on two handles request the same leases concurrently, in
// different orders, both free and expired.
func (s *suite) TestLeaseRace(t *testing.T) {
	const holders, leases = 8, 50
	names := make([]string, leases)
	for i := range names {
		names[i] = fmt.Sprint("lease ", i)
	}
	for range 3 {
		held := make([][]string, holders)
		s.race(holders, "", func(i int, st Store) (_ bool, err error) {
			mine := slices.Concat(names[i:], names[:i])
			if i%3 == 0 {
				slices.Reverse(mine)
			}
			held[i], _, err = st.AcquireLeases(s.ctx(), fmt.Sprint(i), mine, leaseTTL)
			return true, err
		})
		require.ElementsMatch(t, names, slices.Concat(held...), "each has one holder")
		s.clock.advance(leaseTTL)
	}
}
