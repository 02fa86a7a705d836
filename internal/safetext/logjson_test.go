// SPDX-License-Identifier: Apache-2.0

package safetext

import (
	"encoding/json"
	"encoding/xml"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLogJSON(t *testing.T) {
	for _, s := range []string{"##vso[task.setvariable variable=A]b.py", "##[group]", "###teamcity[x", `\##vso[`, "## a [b]", "a"} {
		text, err := json.Marshal(s)
		require.NoError(t, err)
		got := LogJSON(text)
		require.NotRegexp(t, loggingCommand, string(got))
		var back string
		require.NoError(t, json.Unmarshal(got, &back))
		require.Equal(t, s, back)
	}
}

// TestLogMarkup: XML decodes to the same text, and Markdown differs by zero-width spaces only.
func TestLogMarkup(t *testing.T) {
	command := regexp.MustCompile(`(?m)^\s*::|##[A-Za-z]*\[`)
	for _, s := range []string{"##vso[task.setvariable variable=A]b", "a\n  ::set-output name=a::b", "##[group]x ##teamcity[y]", ":: a", "# a ## b"} {
		encoded := LogXML([]byte("<a>" + s + "</a>"))
		require.NotRegexp(t, command, string(encoded))
		var decoded string
		require.NoError(t, xml.Unmarshal(encoded, &decoded))
		require.Equal(t, s, decoded)
		text := string(LogMarkdown([]byte(s)))
		require.NotRegexp(t, command, text)
		require.Equal(t, s, strings.ReplaceAll(text, "\u200b", ""))
	}
	require.Equal(t, "# a\n- b: c", string(LogMarkdown([]byte("# a\n- b: c"))))
}
