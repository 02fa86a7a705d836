// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	. "assay/internal/rules/rulestest"
)

// Primes of XXH64, which older versions used as an unkeyed hash.
const (
	prime1 = 0x9e3779b185ebca87
	prime2 = 0xc2b2ae3d27d4eb4f
	prime3 = 0x165667b19e3779f9
	prime4 = 0x85ebca77c2b2ae63
	prime5 = 0x27d4eb2f165667c5
)

// round is the mixing step of XXH64 for eight bytes of a short text, and unround its inverse.
func round(lane uint64) uint64 { return bits.RotateLeft64(lane*prime2, 31) * prime1 }

func unround(k uint64) uint64 { return bits.RotateLeft64(k*inverse(prime1), -31) * inverse(prime2) }

// inverse returns the inverse of an odd number modulo 2^64.
func inverse(n uint64) uint64 {
	x := n
	for range 6 {
		x *= 2 - n*x
	}
	return x
}

// xxh64 returns the XXH64 of a text of fewer than 32 bytes, a multiple of eight.
func xxh64(s string) uint64 {
	h := prime5 + uint64(len(s))
	for ; len(s) > 0; s = s[8:] {
		h = bits.RotateLeft64(h^round(binary.LittleEndian.Uint64([]byte(s))), 27)*prime1 + prime4
	}
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return h ^ h>>32
}

// TestXXH64 compares xxh64 with the library.
func TestXXH64(t *testing.T) {
	require.Equal(t, uint64(0x5c5b90c34e376d0b), xxh64("0123456789abcdef"))
}

// colliding returns n texts of 16 bytes with the same XXH64. after is the state before the texts. last filters the
// last eight bytes, a little-endian number. Of three thousand texts, one has eight printable ones, so that the search
// is in numbers: the race detector would check each byte of a slice.
func colliding(n int, after uint64, last func(lane uint64) bool) (texts []string) {
	state := func(h, lane uint64) uint64 { return bits.RotateLeft64(h^round(lane), 27)*prime1 + prime4 }
	text := func(lanes ...uint64) string {
		var b []byte
		for _, lane := range lanes {
			b = binary.LittleEndian.AppendUint64(b, lane)
		}
		return string(b)
	}
	first, second := binary.LittleEndian.Uint64([]byte("aaaaaaaa")), binary.LittleEndian.Uint64([]byte("bbbbbbb\x00"))
	if last(second) {
		texts = append(texts, text(first, second))
	}
	target := state(after, first) ^ round(second)
	for i := uint64(0); len(texts) < n; i++ {
		lane := uint64(0)
		for j, v := 0, i; j < 64; j, v = j+8, v>>6 {
			lane |= ('0' + v&63) << j
		}
		if solved := unround(target ^ state(after, lane)); last(solved) {
			texts = append(texts, text(lane, solved))
		}
	}
	return texts
}

// printable reports whether the first n bytes of a lane are printable.
func printable(lane uint64, n int) bool {
	for ; n > 0; n, lane = n-1, lane>>8 {
		if c := byte(lane); c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// collidingTexts returns n printable texts with the same XXH64.
func collidingTexts(t *testing.T, n int) []string {
	texts := colliding(n, prime5+16, func(lane uint64) bool { return printable(lane, 8) })
	for _, s := range texts {
		require.Equal(t, xxh64(texts[0]), xxh64(s))
	}
	return texts
}

// collidingBounds returns two lists of bounds with the same hash in older versions.
func collidingBounds(t *testing.T) [2][]float64 {
	hash := func(bounds []float64) uint64 {
		h := uint64(len(bounds))
		for _, f := range bounds {
			h = delta.Mix(h, math.Float64bits(f+0))
		}
		return h
	}
	const golden = 0x9e3779b97f4a7c15
	for i := 2; ; i++ {
		a, b := []float64{1, 1e3}, []float64{float64(i), 0}
		first := func(l []float64) uint64 { return delta.Mix(2, math.Float64bits(l[0])) * golden }
		b[1] = math.Float64frombits(first(a) + math.Float64bits(a[1]) - first(b))
		if b[1] > b[0] && !math.IsInf(b[1], 0) {
			require.Equal(t, hash(a), hash(b))
			return [2][]float64{a, b}
		}
	}
}

// claims returns the number of keys of a rule that a service claims, and of contested ones.
func (f *fixture) claims(name string, r catalog.Rule) delta.ClaimCount {
	f.t.Helper()
	counts, err := f.store.ServiceClaims(f.t.Context(), f.org, delta.ServiceID(f.org, assay.ServiceKey{Name: name, Environment: "test"}), 0, 0)
	require.NoError(f.t, err)
	c := counts[r]
	return delta.ClaimCount{Claims: c.Claims, Contested: c.Contested}
}

// TestCollidingNames sends texts that collided in older versions.
func TestCollidingNames(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	texts := collidingTexts(t, 12_000)

	// Metrics with different names may have different units.
	f.ingest(e, MetricsRequest(Metrics(Service("a"), Gauge(texts[0], "ms", Point(T0)))))
	f.ingest(e, MetricsRequest(Metrics(Service("b"), Gauge(texts[1], "By", Point(T0)))))
	require.Equal(t, delta.ClaimCount{Claims: 1}, f.claims("a", catalog.MET003))
	require.Equal(t, delta.ClaimCount{Claims: 1}, f.claims("b", catalog.MET003))
	known, err := f.store.KnownMetricNames(t.Context(), f.org)
	require.NoError(t, err)
	require.NotEqual(t, known[assay.ServiceKey{Name: "a", Environment: "test"}], known[assay.ServiceKey{Name: "b", Environment: "test"}])

	// Different units and bounds of one name conflict.
	f.ingest(e, MetricsRequest(Metrics(Service("c"), Gauge("m", texts[2], Point(T0)))))
	f.ingest(e, MetricsRequest(Metrics(Service("d"), Gauge("m", texts[3], Point(T0)))))
	require.Equal(t, delta.ClaimCount{Claims: 1, Contested: 1}, f.claims("c", catalog.MET003))
	bounds := collidingBounds(t)
	f.ingest(e, MetricsRequest(Metrics(Service("c"), Histogram("h", "s", T0, bounds[0]))))
	f.ingest(e, MetricsRequest(Metrics(Service("d"), Histogram("h", "s", T0, bounds[1]))))
	require.Equal(t, delta.ClaimCount{Claims: 1, Contested: 1}, f.claims("d", catalog.MET004))

	// Each span name and attribute value counts.
	var spans []*tracepb.Span
	for i, name := range texts[:1100] {
		spans = append(spans, Span(1, 1+i, 0, func(s *tracepb.Span) { s.Name = name }))
	}
	f.ingest(e, Traces(Spans(Service("a"), spans...)))
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, f.totals("a", catalog.SPA003))
	values := Gauge("values", "1")
	for _, v := range texts {
		values.GetGauge().DataPoints = append(values.GetGauge().DataPoints, Point(T0, "k", v))
	}
	f.ingest(e, MetricsRequest(Metrics(Service("e"), values)))
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, f.totals("e", catalog.MET001))
	usage, err := f.store.FindUsage(t.Context(), f.org)
	require.NoError(t, err)
	for _, u := range usage {
		if u.Service.Name == "e" {
			require.InEpsilon(t, len(texts), u.ActiveSeries, 0.1)
		}
	}
}

// TestCollidingInstances: two instances on two workloads do not conflict.
func TestCollidingInstances(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	// Older versions hashed the name, a NUL, the id, a NUL and the kind.
	const name = "service"
	after := uint64(prime5 + len(name) + 1 + 15 + 1 + len("host.id"))
	after = bits.RotateLeft64(after^round(binary.LittleEndian.Uint64([]byte(name+"\x00"))), 27)*prime1 + prime4
	for i, id := range colliding(2, after, func(lane uint64) bool { return lane>>56 == 0 && printable(lane, 7) }) {
		resource := Attrs("service.name", name, "service.instance.id", id[:15], "host.id", fmt.Sprint(i), "deployment.environment.name", "test")
		f.ingest(e, LogsRequest(Logs(resource, Log("x"))))
	}
	require.Equal(t, delta.ClaimCount{Claims: 2}, f.claims(name, catalog.RES002))
}

// TestHashesOfTwoOrganizations: stored hashes of equal names differ between organizations.
func TestHashesOfTwoOrganizations(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	other := &assay.Organization{Name: "other", Tier: assay.TierFree}
	require.NoError(t, f.store.CreateOrganization(t.Context(), other))
	names := make(map[string]uint64)
	for _, f.org = range []string{f.org, other.ID} {
		f.ingest(e, MetricsRequest(Metrics(Service("a"), Gauge("m", "ms", Point(T0)))))
		known, err := f.store.KnownMetricNames(t.Context(), f.org)
		require.NoError(t, err)
		names[f.org] = known[assay.ServiceKey{Name: "a", Environment: "test"}][0]
	}
	require.Len(t, names, 2)
	for org, name := range names {
		if org != other.ID {
			require.NotEqual(t, names[other.ID], name)
		}
	}

	// The hashes are the same after a restart.
	f.advance(time.Hour)
	f.ingest(f.engine(), MetricsRequest(Metrics(Service("a"), Gauge("m", "ms", Point(T0)))))
	known, err := f.store.KnownMetricNames(t.Context(), f.org)
	require.NoError(t, err)
	require.Equal(t, []uint64{names[f.org]}, known[assay.ServiceKey{Name: "a", Environment: "test"}])
}
