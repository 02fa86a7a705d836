// SPDX-License-Identifier: Apache-2.0

package checktest

import (
	"embed"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

//go:embed examples
var examples embed.FS

// Example is a small repository with the expected findings.
type Example struct {
	Name string `yaml:"name"` // "constant name, id as attribute"
	// Findings are the places that the check reports, as "path:line". None is a near miss.
	Findings []string `yaml:"findings"`
	// Files are the texts by path. GoFile completes a Go file without a package clause.
	Files map[string]string `yaml:"files"`
}

// Examples returns the examples by the id of the check.
func Examples(t testing.TB) map[string][]Example {
	t.Helper()
	all := map[string][]Example{}
	files, err := examples.ReadDir("examples")
	require.NoError(t, err)
	for _, file := range files {
		f, err := examples.Open("examples/" + file.Name())
		require.NoError(t, err)
		d := yaml.NewDecoder(f)
		d.KnownFields(true)
		var list []Example
		require.NoError(t, d.Decode(&list), file.Name())
		for _, e := range list {
			for name, text := range e.Files {
				if strings.HasSuffix(name, ".go") && !strings.HasPrefix(text, "package ") {
					e.Files[name] = GoFile(text)
				}
			}
		}
		all[strings.TrimSuffix(file.Name(), ".yaml")] = list
	}
	return all
}

// GoFile returns a Go file whose first four lines are a package clause, the imports that examples share, a tracer, a
// meter and an empty line.
func GoFile(body string) string {
	return `package shop; import ("context"; "database/sql"; "fmt"; "log/slog"; "net/http"; "os")
import ("go.opentelemetry.io/otel"; "go.opentelemetry.io/otel/attribute"; "go.opentelemetry.io/otel/codes"; "go.opentelemetry.io/otel/metric"; "go.opentelemetry.io/otel/sdk/resource"; "go.opentelemetry.io/otel/trace")
var tracer, meter = otel.Tracer("shop"), otel.Meter("shop")

` + body
}
