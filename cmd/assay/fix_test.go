// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFix(t *testing.T) {
	dir := reviewed(t)
	file := filepath.Join(dir, "cart", "cart.go")
	before, err := os.ReadFile(file)
	require.NoError(t, err)

	dry := call{}.run("fix", "--dry-run", dir)
	require.Zero(t, dry.code)
	require.Contains(t, dry.stdout, "--- a/cart/cart.go\n+++ b/cart/cart.go\n")
	require.Contains(t, dry.stderr, "assay: can be fixed: 2 of 2 findings; files: 1")
	now, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, before, now)

	only := call{}.run("fix", "--only", "span-not-ended", dir)
	require.Zero(t, only.code)
	require.Empty(t, only.stdout)

	done := call{}.run("fix", dir)
	require.Zero(t, done.code)
	require.Equal(t, dry.stdout, done.stdout)
	require.Contains(t, done.stderr, "assay: fixed: 2 of 2 findings; files: 1")
	second := call{}.run("fix", dir)
	require.Zero(t, second.code)
	require.Empty(t, second.stdout)
	require.Contains(t, second.stderr, "assay: fixed: 0 of 0 findings; files: 0")

	for _, args := range [][]string{{"fix", filepath.Join(dir, "missing")}, {"fix", "--only", "none", dir}, {"fix"}, {"fix", file}} {
		require.Equal(t, 2, call{}.run(args...).code, args)
	}
}

// TestFixVariables names the environment variables that replace secrets.
func TestFixVariables(t *testing.T) {
	dir := t.TempDir()
	compose := "services:\n  a:\n    image: a\n    environment:\n      JWT_SECRET: pR7vXc2mQ9wLz4Kt8Yb3\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "compose.yaml"), []byte(compose), 0o600))
	r := call{}.run("fix", dir)
	require.Zero(t, r.code)
	require.Contains(t, r.stderr, "assay: left: compose.yaml:5: set the environment variable JWT_SECRET\n")
}

// TestChangeNothing says that there is nothing to change.
func TestChangeNothing(t *testing.T) {
	r := call{}.run("migrate", "--dry-run", t.TempDir())
	require.Zero(t, r.code, r.stderr)
	require.Empty(t, r.stdout)
	require.Equal(t, "assay: nothing to change\n", r.stderr)
	r = call{}.run("instrument", t.TempDir())
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, "assay: nothing to change: no manifest of this repository describes a service in Go, JavaScript, Python or Java\n", r.stderr)
}

// TestMigrateVendors says what the tables of a migration do not know.
func TestMigrateVendors(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"orders/pom.xml": "<project><dependencies><dependency>\n<groupId>org.springframework.cloud</groupId>\n<artifactId>spring-cloud-starter-zipkin</artifactId>\n</dependency></dependencies></project>\n",
		"ca/go.mod":      "module a\n\ngo 1.24\n\nrequire github.com/newrelic/go-agent/v3 v3.44.1\n",
		"shop/a.py":      "import opentracing\n\nopentracing.unknown()\n",
		"shop/b.py":      "import opentracing\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	r := call{}.run("migrate", dir)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "assay: left: ca/go.mod:5: `github.com/newrelic/go-agent/v3` is instrumentation of New Relic. It is in no table: replace it by OpenTelemetry.\n")
	require.Contains(t, r.stderr, "assay: left: orders/pom.xml:3: `org.springframework.cloud:spring-cloud-starter-zipkin` is instrumentation of Zipkin. It is in no table")
	require.Contains(t, r.stderr, "assay: left: shop/a.py:3: opentracing.unknown is in no table.\n")
	require.NotContains(t, r.stderr, "shop/b.py")
}

// TestFixRejected says why a fix is not made: a variable would have no use.
func TestFixRejected(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte(`package a

import "go.opentelemetry.io/otel/attribute"

func f(user *User) {
	email := user.Email
	span.SetAttributes(attribute.String("user.email", email))
	span.SetAttributes(attribute.String("enduser.email", email))
}
`), 0o600))
	r := call{}.run("fix", "--dry-run", dir)
	require.Zero(t, r.code)
	require.Contains(t, r.stderr, "a.go:7: sensitive-attribute: the file would not compile with its fix")
}
