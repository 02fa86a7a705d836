// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func hashKey(t *testing.T, fill byte) HashKey {
	t.Helper()
	k, err := NewHashKey(bytes.Repeat([]byte{fill}, HashSecretBytes))
	require.NoError(t, err)
	return k
}

// TestHashKeyValues: stores contain these hashes, so they must not change.
func TestHashKeyValues(t *testing.T) {
	k := hashKey(t, 7)
	require.Equal(t, uint64(0x196cfeed6ddddab0), k.Sum64(DomainUnit, []byte("ms")))
	require.Equal(t, Hash128{0xb6e05799168e131e, 0xcdd4b104ab9a5c77}, k.Sum128(DomainMetric, []byte("http.server.request.duration")))
	require.Equal(t, "44c9236eaa5d530adead81756139f280", fmt.Sprintf("%x", k.Request([]byte("a request"))))
}

func TestHashKeyDomains(t *testing.T) {
	text := []byte("the same text")
	seen := make(map[uint64]bool)
	for _, k := range []HashKey{hashKey(t, 1), hashKey(t, 2)} {
		for d := range domainCount {
			seen[k.Sum64(d, text)], seen[k.Sum128(d, text).High], seen[k.Sum128(d, text).Low] = true, true, true
		}
	}
	require.Len(t, seen, 2*3*int(domainCount), "hashes differ between organizations and domains")
	require.NotEqual(t, hashKey(t, 1).Request(text), hashKey(t, 2).Request(text))
	require.Equal(t, hashKey(t, 1).Request(text), hashKey(t, 1).Request(text))
	require.NotEqual(t, NewHashSecret(), NewHashSecret())
	for _, n := range []int{0, HashSecretBytes - 1, HashSecretBytes + 1} {
		_, err := NewHashKey(make([]byte, n))
		require.Error(t, err, "secret of %d bytes", n)
	}
}

// TestHashKeyIsNotShown prints and encodes a key in every way that a log or error may.
func TestHashKeyIsNotShown(t *testing.T) {
	k := hashKey(t, 0xab)
	inside := struct{ hidden, Shown HashKey }{k, k}
	var shown strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, v := range []any{k, &k, inside, &inside, []HashKey{k}, map[string]HashKey{"key": k}} {
			fmt.Fprintf(&shown, verb+"\n", v)
		}
	}
	encoded, err := json.Marshal(inside)
	require.NoError(t, err)
	shown.Write(encoded)
	for _, h := range []slog.Handler{slog.NewTextHandler(&shown, nil), slog.NewJSONHandler(&shown, nil)} {
		slog.New(h).Info("a key", "key", k, "inside", inside)
	}
	lower := strings.ToLower(shown.String())
	words := []string{"abab", "171 171"}
	for _, part := range append((*k.keys).domains[0][:], (*k.keys).domains[domainCount-1][:]...) {
		words = append(words, fmt.Sprint(part), fmt.Sprintf("%x", part))
	}
	some := (*k.keys).requests[:4]
	words = append(words, fmt.Sprintf("%x", some), fmt.Sprintf("%d %d %d %d", some[0], some[1], some[2], some[3]))
	for _, word := range words {
		require.NotContains(t, lower, word)
	}
}

// unkeyedSeries returns a Series as encoded by an older version.
func unkeyedSeries(t *testing.T, b Bucket, hashes ...uint64) *Series {
	t.Helper()
	var seen [][2]uint64
	for _, h := range hashes {
		seen = append(seen, [2]uint64{h, 0})
	}
	s := new(Series)
	require.NoError(t, s.UnmarshalBinary(encodedSeries([]uint64{uint64(b)}, seen...)))
	require.EqualValues(t, len(hashes), s.Count())
	return s
}

// TestSeriesOfOlderVersions: unkeyed hashes count until a keyed one is added, and never together with keyed ones.
func TestSeriesOfOlderVersions(t *testing.T) {
	old := unkeyedSeries(t, 5, 1<<60, 2<<60, 3<<60)
	old.Merge(unkeyedSeries(t, 6, 3<<60, 4<<60))
	require.EqualValues(t, 4, old.Count())
	keyed := seriesOf(0, 2, 7)

	sum := new(Series)
	sum.Merge(old)
	sum.Merge(keyed)
	require.EqualValues(t, 2, sum.Count())
	backwards := new(Series)
	backwards.Merge(keyed)
	backwards.Merge(old)
	require.Equal(t, sum.AppendBinary(nil), backwards.AppendBinary(nil))

	// A replica of an older version adds its own hashes to the stored ones.
	var hashes []uint64
	for _, x := range sum.seen {
		hashes = append(hashes, x.hash)
	}
	mixed := unkeyedSeries(t, 7, append(hashes, 15<<60)...)
	mixed.Add(Mix(0, 5), 7)
	require.EqualValues(t, 2, mixed.Count())

	// A keyed hash is kept regardless of the number of unkeyed ones.
	many := new(Series)
	for n := range uint64(3 * maxSeries) {
		many.Merge(unkeyedSeries(t, 9, n<<17))
	}
	many.Count()
	many.Add(1<<63, 9)
	require.EqualValues(t, 1, many.Count())
}
