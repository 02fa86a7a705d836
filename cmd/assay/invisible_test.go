// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/report"
	"assay/internal/safetext"
)

// TestOutputHidesNothing checks that a name chosen by a sender cannot control the terminal or be displayed
// differently from its content, in any format of any command.
func TestOutputHidesNothing(t *testing.T) {
	const hostile = "shop\u009b31m\u202eevil\u2066\u061c\ufeff\U000e0041\u2028\x7f"
	name, err := json.Marshal(hostile)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "in.json")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":%s}}]},
		"scopeSpans":[{"spans":[{"traceId":"0123456789abcdef0123456789abcdef","spanId":"0123456789abcdef","name":%[1]s,"kind":2,"startTimeUnixNano":"%d","endTimeUnixNano":"%[2]d"}]}]}]}`,
		name, time.Now().UnixNano()), 0o600))
	requireShown := func(what, text string) {
		t.Helper()
		for _, r := range text {
			require.False(t, safetext.Hidden(r) && r != '\n' && r != '\t', "%s: %U in %s", what, r, text)
		}
	}
	for _, format := range report.Formats() {
		r := call{}.run("score", "--format", format, "--min-score", "100", file)
		require.Contains(t, r.stdout, "shop", r.stderr)
		requireShown(format, r.stdout)
		requireShown(format, r.stderr)
		if format == "json" {
			var out report.Report
			require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
			require.Equal(t, hostile, out.Services[0].Name)
		}
	}

	var b bytes.Buffer
	require.NoError(t, writeList(&environment{stdout: &b}, "json", []insightRow{{Service: insightService{Name: hostile}}}, nil, nil))
	requireShown("a list", b.String())
	var rows []insightRow
	require.NoError(t, json.Unmarshal(b.Bytes(), &rows))
	require.Equal(t, hostile, rows[0].Service.Name)

	// Names of files in what commands say of a repository.
	var said bytes.Buffer
	(&environment{stderr: &said}).say("assay: left: %s/package.json\n\t%s", "a\x1b]0;b\x07"+hostile, "c")
	requireShown("a message", said.String())
	require.Equal(t, 1, strings.Count(said.String(), "\n"), "a name cannot add a line")
	require.Contains(t, said.String(), "  c\n")
	said.Reset()
	(&environment{stderr: &said}).say("assay: left: %s", "##vso[task.setvariable]")
	require.NotContains(t, said.String(), "##vso[")
}
