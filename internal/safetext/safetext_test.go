// SPDX-License-Identifier: Apache-2.0

package safetext

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// hostile are characters that end, reorder, color or hide text.
var hostile = []rune{
	0x00, 0x07, 0x08, 0x0a, 0x0d, 0x1b, 0x7f, 0x80, 0x85, 0x90, 0x9b, 0x9c, 0x9d, 0x9f, 0xa0, 0xad, 0x034f, 0x061c, 0x115f, 0x1160, 0x17b4, 0x180b, 0x180e,
	0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x202f, 0x2060, 0x2064, 0x2066, 0x2067, 0x2068, 0x2069, 0x206a, 0x206f,
	0x2800, 0x3000, 0x3164, 0xe000, 0xfe00, 0xfe0f, 0xfeff, 0xffa0, 0xfff9, 0xfffb, 0x110bd, 0x13430, 0x1bca0, 0x1d173, 0xe0001, 0xe0020, 0xe007f, 0xe0100, 0xe01ef, 0xf0000, 0x10ffff,
}

func TestHidden(t *testing.T) {
	for _, r := range hostile {
		require.True(t, Hidden(r), "%U", r)
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			require.True(t, Hidden(r), "%U", r)
		}
	}
	for _, r := range " ~aä€漢ひ한עع😀…→\ufffd\u0301" {
		require.False(t, Hidden(r), "%U", r)
	}
}

func TestStart(t *testing.T) {
	require.Equal(t, "abc", Start("abc", 3))
	require.Equal(t, "ab", Start("abc", 2))
	require.Equal(t, "a", Start("aä", 2))
	require.Equal(t, "", Start("ä", 1))
}

func TestPrintable(t *testing.T) {
	for _, r := range hostile {
		require.Equal(t, "a\ufffdb", Printable("a"+string(r)+"b", ""), "%U", r)
	}
	require.Equal(t, "a\tä😀\ufffd\ufffd\n", Printable("a\tä😀\u202e\xff\n", "\n\t"))
}

func TestCut(t *testing.T) {
	require.Equal(t, "aä€", Cut("aä€", 6))
	for n, want := range []string{"…", "a…", "a…", "aä…", "aä…", "aä…"} {
		require.Equal(t, want, Cut("aä€", n), n)
	}
}

func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"{\n \"a\": [1, \"ä😀\"]\n}\n":     "{\n \"a\": [1, \"ä😀\"]\n}\n",
		"\"a\u202eb\u009bc\"":             `"a\u202eb\u009bc"`,
		"{\"\U000e0041\":\"\ufeff\x7f\"}": `{"\udb40\udc41":"\ufeff\u007f"}`,
		"\"\\u202e\\\u202e\"":             `"\u202e\\u202e"`, // invalid JSON stays invalid
		"\"\x9b\xff\"":                    `"\ufffd\ufffd"`,
	} {
		require.Equal(t, want, string(JSON([]byte(text))))
	}
	plain := []byte(`{"a":"ä"}`)
	require.Same(t, &plain[0], &JSON(plain)[0], "nothing is copied")
}

func TestEncodeJSON(t *testing.T) {
	b := bytes.NewBufferString("before ")
	require.NoError(t, EncodeJSON(b, map[string]any{"a<": "\u202e", "raw": json.RawMessage("\"\u009b\"")}, ""))
	require.Equal(t, `before {"a<":"\u202e","raw":"\u009b"}`, b.String())
	b.Reset()
	require.NoError(t, EncodeJSON(b, []string{"x"}, "  "))
	require.Equal(t, "[\n  \"x\"\n]", b.String())
	require.Error(t, EncodeJSON(b, func() {}, ""))
}

func TestLogLine(t *testing.T) {
	for line, want := range map[string]string{
		"::set-output name=a::b":               `\u003a:set-output name=a::b`,
		" \t::error::a":                        " \t" + `\u003a:error::a`,
		"a ##vso[task.setvariable variable=b]": `a #\u0023vso[task.setvariable variable=b]`,
		"##[group]a":                           `#\u0023[group]a`,
		"###teamcity[a]##[b":                   `##\u0023teamcity[a]#\u0023[b`,
		"## a, std::vector, :a:, ##a b[c]":     "## a, std::vector, :a:, ##a b[c]",
		"":                                     "",
	} {
		require.Equal(t, want, LogLine(line))
	}
}

func TestJSONWriter(t *testing.T) {
	var b bytes.Buffer
	n, err := JSONWriter{&b}.Write([]byte("\"\u202e\"\n"))
	require.NoError(t, err)
	require.Equal(t, 6, n, "reports the length of the input")
	require.Equal(t, "\"\\u202e\"\n", b.String())
}

// FuzzEncodeJSON: the output contains no hidden character and decodes to the input.
func FuzzEncodeJSON(f *testing.F) {
	f.Add(string(hostile), "")
	f.Add("plain", string(hostile[10:]))
	f.Add("\xff\x9b", "\\\"\u202e\\u202e")
	f.Fuzz(func(t *testing.T, key, value string) {
		key, value = strings.ToValidUTF8(key, "\ufffd"), strings.ToValidUTF8(value, "\ufffd")
		in := map[string]any{key: []any{value, 1.0, nil}}
		for _, indent := range []string{"", "  "} {
			var b bytes.Buffer
			require.NoError(t, EncodeJSON(&b, in, indent))
			for _, r := range b.String() {
				require.False(t, Hidden(r) && r != '\n', "%U in %q", r, b.String())
			}
			require.True(t, utf8.Valid(b.Bytes()))
			var out map[string]any
			require.NoError(t, json.Unmarshal(b.Bytes(), &out))
			require.Equal(t, in, out)
		}
	})
}
