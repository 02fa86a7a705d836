// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	for given, want := range map[string]string{
		"checkout":                  `<bdi>checkout</bdi>`,
		"":                          `<bdi></bdi>`,
		"Bücher 書店":                 `<bdi>Bücher 書店</bdi>`,
		`<script>alert(1)`:          `<bdi>&lt;script&gt;alert(1)</bdi>`,
		"a\u202egnp.exe":            `<bdi>a<span class="esc">⟨U+202E⟩</span>gnp.exe</bdi>`,
		"a\x00b\x1b[31m":            `<bdi>a<span class="esc">⟨U+0000⟩</span>b<span class="esc">⟨U+001B⟩</span>[31m</bdi>`,
		"\xff\xfeok":                `<bdi><span class="esc">⟨FF⟩</span><span class="esc">⟨FE⟩</span>ok</bdi>`,
		"a\u00a0b\u200bc":           `<bdi>a<span class="esc">⟨U+00A0⟩</span>b<span class="esc">⟨U+200B⟩</span>c</bdi>`,
		"e\u0301":                   "<bdi>e\u0301</bdi>",
		"e\u0301\u0301\u0301\u0301": "<bdi>e\u0301\u0301\u0301" + `<span class="esc">⟨U+0301⟩</span></bdi>`,
		"line\nbreak":               `<bdi>line<span class="esc">⟨U+000A⟩</span>break</bdi>`,
		"\U000e0041":                `<bdi><span class="esc">⟨U+E0041⟩</span></bdi>`,
	} {
		require.Equal(t, want, string(name(given)), "%q", given)
	}
}

func TestLongNames(t *testing.T) {
	long := strings.Repeat("x", 10<<10)
	require.Equal(t, "<bdi>"+strings.Repeat("x", shortText)+"…</bdi>", string(name(long)))
	require.Equal(t, strings.Repeat("x", shortText)+"…", plain(long))
	require.Contains(t, string(fullName(long)), long)
	require.Less(t, len(fullName(strings.Repeat("x", 1<<20))), 2*longText)
	exact := strings.Repeat("é", shortText)
	require.Equal(t, "<bdi>"+exact+"</bdi>", string(fullName(exact)))
}

// FuzzNames checks that a displayed name has only printable characters, only expected elements, and at most
// the maximum length.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"checkout", "<b>", "a\u202eb", "\xff", "\x00", "e\u0301\u0301\u0301\u0301", strings.Repeat("long", 99)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := plain(s)
		require.True(t, utf8.ValidString(out))
		for _, r := range out {
			require.Empty(t, escapeOf(r, string(r), 0), "%q in %q", r, out)
		}
		pieces := visible(s, shortText)
		require.LessOrEqual(t, len(pieces), shortText+1)
		rest := strings.NewReplacer("<bdi>", "", "</bdi>", "", `<span class="esc">`, "", "</span>", "").Replace(string(name(s)))
		require.NotContains(t, rest, "<")
	})
}
