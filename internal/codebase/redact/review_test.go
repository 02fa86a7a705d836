// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/codebase/redact"
	"assay/internal/review"
	"assay/internal/review/check"
	"assay/internal/review/check/checktest"
)

// TestViewOfCredentials: lines that the review reports as hard-coded credentials are hidden.
func TestViewOfCredentials(t *testing.T) {
	lines := 0
	examples := checktest.Examples(t)
	for _, c := range check.All() {
		for _, e := range examples[c.ID] {
			for _, at := range e.Findings {
				name, number, _ := strings.Cut(at, ":")
				i, err := strconv.Atoi(number)
				if require.NoError(t, err); c.Masked {
					require.True(t, viewOf(t, e.Files[name])[i-1].Redacted(), "%s: %s", e.Name, at)
					lines++
				}
			}
		}
	}
	require.NotZero(t, lines)
}

// TestViewOfGenerated: lines that the review reports in generated configuration files are hidden.
func TestViewOfGenerated(t *testing.T) {
	dir := t.TempDir()
	for i, value := range redact.Passwords {
		for name, text := range map[string]string{
			"compose.yaml": "services:\n  web:\n    image: web\n    environment:\n      API_KEY: @@\n      SMTP_PASSWORD: @@\n      N8N_ENCRYPTION_KEY: @@\n" +
				"      NOTE: see (the runbook\n      SESSION_SECRET: @@\n      URL: https://shop:@@@db.example.com/\n",
			"deployment.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - name: web\n    env:\n" +
				"    - name: LICENSE_KEY\n      value: @@\n    - {name: APP_KEY, value: @@}\n",
			"secret.yaml":    "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData:\n  signing_key: @@\n  clientSecret: @@\n",
			"collector.yaml": "receivers:\n  otlp:\nexporters:\n  otlp:\n    headers:\n      x-honeycomb-team: @@\n      Authorization: Bearer @@\n  datadog:\n    api: {key: @@}\n",
			"Dockerfile":     "FROM scratch\nENV NEW_RELIC_LICENSE_KEY=@@\nENV API_TOKEN @@\nENV A=b \\\n    APP_KEY=@@\n",
		} {
			file := filepath.Join(dir, "production", strconv.Itoa(i), name)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
			require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "@@", value)), 0o600))
		}
	}
	r, err := review.Run(t.Context(), review.Options{Root: dir, Only: []string{"secret-in-config"}})
	require.NoError(t, err)
	for _, f := range r.Findings {
		at := f.Locations[0]
		text, err := os.ReadFile(filepath.Join(dir, at.File))
		require.NoError(t, err)
		require.True(t, viewOf(t, string(text))[at.Line-1].Redacted(), "%s:%d: %s", at.File, at.Line, redact.Raw(text)[at.Line-1])
	}
	require.Greater(t, len(r.Findings), 5*len(redact.Passwords))
}

// viewOf returns the lines of a text as a model sees them.
func viewOf(t *testing.T, text string) []redact.Line {
	t.Helper()
	lines, err := redact.Lines(t.Context(), []byte(text))
	require.NoError(t, err)
	return lines
}
