// SPDX-License-Identifier: Apache-2.0

package safetext

import (
	"regexp"
	"strings"
	"unicode"
)

// loggingCommand begins a command of GitHub (##[group]), Azure Pipelines (##vso[...]) or TeamCity (##teamcity[...]) anywhere in a
// line.
var loggingCommand = regexp.MustCompile(`##([A-Za-z]*\[)`)

// LogLine returns a line of output that the runner of a CI job does not take for a command, such as `::set-output` at the start
// of a line for GitHub. A character of a command becomes its escape.
func LogLine(line string) string {
	if rest := strings.TrimLeftFunc(line, unicode.IsSpace); strings.HasPrefix(rest, "::") {
		line = line[:len(line)-len(rest)] + `\u003a` + rest[1:]
	}
	if !strings.Contains(line, "##") {
		return line
	}
	return loggingCommand.ReplaceAllString(line, `#\u0023$1`)
}

// LogJSON returns a JSON text of whose lines the runner of a CI job takes none for a command. It decodes to the same values.
func LogJSON(text []byte) []byte { return loggingCommand.ReplaceAll(text, []byte(`#\u0023$1`)) }

// lineCommand begins a command of GitHub (::set-output) at the start of a line.
var lineCommand = regexp.MustCompile(`(?m)^(\s*):(:)`)

// LogXML is LogJSON for XML.
func LogXML(text []byte) []byte {
	return lineCommand.ReplaceAll(loggingCommand.ReplaceAll(text, []byte("#&#35;$1")), []byte("$1&#58;$2"))
}

// LogMarkdown is LogJSON for Markdown. It adds zero-width spaces, which code can contain too.
func LogMarkdown(text []byte) []byte {
	return lineCommand.ReplaceAll(loggingCommand.ReplaceAll(text, []byte("#\u200b#$1")), []byte("$1:\u200b$2"))
}
