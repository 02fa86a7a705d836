// SPDX-License-Identifier: Apache-2.0

package safetext

import (
	"encoding/json"
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
