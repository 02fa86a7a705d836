// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

const configurationIntro = `# Configuration

<!-- Generated from the flags: make generate. -->

Each setting is a flag, an environment variable and a key of a YAML file:

| source | example |
|---|---|
| flag | ` + "`--http-address 0.0.0.0:8080`" + ` |
| environment variable: ` + "`ASSAY_`" + ` and the flag's name in upper snake case | ` + "`ASSAY_HTTP_ADDRESS=0.0.0.0:8080`" + ` |
| file given by ` + "`--config`" + `; its keys are the flags' names | ` + "`http-address: 0.0.0.0:8080`" + ` |

Flags take precedence over the environment, which takes precedence over the file. An unknown key in the file is an error; an unknown
` + "`ASSAY_`" + ` variable is a warning. An empty variable is ignored. A flag whose name ends in ` + "`-file`" + ` reads a secret from a file, so that it appears in no
process list. Sizes are numbers of bytes or have the unit KiB, MiB or GiB. Durations are written like 90s, 5m or 720h.

A flag with several values is a list in the file: ` + "`cors-allowed-origins: [https://a.example, https://b.example]`" + `. On the
command line and in the environment, commas separate the values. A flag marked as repeatable is given once for each value instead;
its environment variable holds one value.

` + "`assay serve --help`" + ` shows the flags that most installations need, ` + "`assay serve --help-all`" + ` all of them. Flags for tuning
are marked with an asterisk.

The flags of the server follow. ` + "`assay COMMAND --help`" + ` shows the flags of other commands.
`

// TestConfigurationDocument compares docs/configuration.md with the flags of serve.
func TestConfigurationDocument(t *testing.T) {
	k, err := kong.New(new(cli), kong.ExplicitGroups(flagGroups), kong.Writers(io.Discard, io.Discard))
	require.NoError(t, err)
	var serve *kong.Node
	for _, n := range k.Model.Children {
		if n.Name == "serve" {
			serve = n
		}
	}
	var b strings.Builder
	b.WriteString(configurationIntro)
	for _, f := range serve.Flags {
		require.True(t, f.Group != nil && slices.ContainsFunc(flagGroups, func(g kong.Group) bool { return g.Key == f.Group.Key }), "--%s has no group of help.go", f.Name)
		require.True(t, f.Default == "" || f.IsBool() || strings.Contains(f.Help, f.Default), "the help of --%s lacks ${default}", f.Name)
	}
	for _, g := range flagGroups {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | default | |\n|---|---|---|\n", strings.TrimSuffix(g.Title, ":"))
		for _, f := range serve.Flags {
			if f.Group == nil || f.Group.Key != g.Key {
				continue
			}
			name := f.Name
			if f.IsBool() && f.Tag.Negatable != "" {
				name = "[no-]" + name
			}
			cells := "`--" + name + "`"
			if f.Hidden {
				cells += " *"
			}
			cells += " |"
			if f.Default != "" {
				cells += " `" + f.Default + "`"
			}
			help := strings.ReplaceAll(strings.ReplaceAll(f.Help, " ("+f.Default+")", ""), "|", `\|`)
			fmt.Fprintf(&b, "| %s | %s |\n", cells, help)
		}
	}
	const file = "../../docs/configuration.md"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(text), "docs/configuration.md differs from the flags: run make generate")
}

// TestFlagsAreDocumented: the documentation names every flag.
func TestFlagsAreDocumented(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	var text strings.Builder
	for _, page := range pages {
		b, err := os.ReadFile(page)
		require.NoError(t, err)
		text.Write(b)
	}
	k, err := kong.New(new(cli), kong.ExplicitGroups(flagGroups), kong.Writers(io.Discard, io.Discard))
	require.NoError(t, err)
	for _, command := range k.Model.Leaves(true) {
		for _, f := range command.Flags {
			name := "--" + f.Name
			if f.Tag.Negatable != "" {
				name = "--[no-]" + f.Name
			}
			assert.True(t, strings.Contains(text.String(), name), "docs lack %s of assay %s", name, command.Path())
		}
	}
}
