// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/sha256"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const goodKey = Secret("assay_sk_aB3xY9_0123456789abcdef0123456789abcdef")

func TestNewKey(t *testing.T) {
	form := regexp.MustCompile(`^assay_sk_[A-Za-z0-9]{6}_[0-9a-f]{32}$`)
	seen := map[Secret]bool{}
	counts := map[rune]int{}
	const n = 5000
	for range n {
		key, stored := NewKey("assay")
		require.Regexp(t, form, string(key))
		require.False(t, seen[key])
		seen[key] = true
		id, ok := ParseKey("assay", key)
		require.True(t, ok)
		require.Equal(t, stored.ID, id)
		require.Equal(t, sha256.Sum256([]byte(key)), stored.Hash)
		for _, r := range id {
			counts[r]++
		}
	}
	// 30,000 draws from 62 characters: 484 each, standard deviation 22. With modulo bias the first eight
	// would have 586 each.
	require.Len(t, counts, 62)
	for r, c := range counts {
		require.InDelta(t, 484, c, 6*22, "%c", r)
	}
	firstEight := 0
	for _, r := range "ABCDEFGH" {
		firstEight += counts[r]
	}
	require.InDelta(t, 8*484, firstEight, 6*60)
}

func TestParseKey(t *testing.T) {
	for name, c := range map[string]struct {
		prefix string
		key    Secret
		id     string
	}{
		"good":                   {"assay", goodKey, "aB3xY9"},
		"prefix with underscore": {"my_org", "my_org_sk_000000_" + Secret(strings.Repeat("f", 32)), "000000"},
		"other prefix":           {"assay", "other_sk_aB3xY9_0123456789abcdef0123456789abcdef", ""},
		"empty":                  {"assay", "", ""},
		"prefix only":            {"assay", "assay_sk_", ""},
		"short secret":           {"assay", goodKey[:len(goodKey)-1], ""},
		"long secret":            {"assay", goodKey + "0", ""},
		"upper-case secret":      {"assay", "assay_sk_aB3xY9_0123456789ABCDEF0123456789abcdef", ""},
		"short id":               {"assay", "assay_sk_aB3xY_00123456789abcdef0123456789abcdef", ""},
		"id with a dash":         {"assay", "assay_sk_aB-xY9_0123456789abcdef0123456789abcdef", ""},
		"id not ASCII":           {"assay", "assay_sk_aBéY9_0123456789abcdef0123456789abcdef", ""},
		"letter in the middle":   {"assay", "assay_sk_aB3xY9_0123456789abcdez0123456789abcdef", ""},
		"no separator":           {"assay", "assay_sk_aB3xY900123456789abcdef0123456789abcdef", ""},
		"NUL":                    {"assay", "assay_sk_aB3xY9_0123456789abcdef0123456789abcde\x00", ""},
		"space after":            {"assay", goodKey + " ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			id, ok := ParseKey(c.prefix, c.key)
			require.Equal(t, c.id, id)
			require.Equal(t, c.id != "", ok)
		})
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("assay", string(goodKey))
	f.Add("", "_sk_aB3xY9_0123456789abcdef0123456789abcdef")
	f.Add("a", "a_sk_aB3xY9_0123456789abcdef0123456789abcde\xff")
	form := regexp.MustCompile(`\A_sk_[A-Za-z0-9]{6}_[0-9a-f]{32}\z`)
	f.Fuzz(func(t *testing.T, prefix, key string) {
		id, ok := ParseKey(prefix, Secret(key))
		rest, has := strings.CutPrefix(key, prefix)
		if want := has && form.MatchString(rest); ok != want {
			t.Fatalf("ParseKey(%q, %q) = %v, want %v", prefix, key, ok, want)
		}
		if ok && id != rest[4:10] {
			t.Fatalf("id %q", id)
		}
	})
}
