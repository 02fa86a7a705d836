// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"assay/internal/llm"
)

// Limits of the result of a tool.
const (
	maxResult    = 16 << 10 // bytes
	maxReadLines = 400
	maxListed    = 500
	maxMatches   = 50
	maxQuery     = 200      // bytes
	maxArguments = 64 << 10 // bytes
)

// tools are the tools of the model.
var tools = []llm.Tool{
	{
		Name: "list", Description: "Lists the files whose path begins with a prefix, in the order of their paths.",
		Schema: json.RawMessage(`{"type":"object","properties":{"prefix":{"type":"string","description":"such as cmd/server/; empty for all files"}},"required":["prefix"],"additionalProperties":false}`),
	},
	{
		Name: "read", Description: "Returns lines of a file with their numbers, at most 400 at a time.",
		Schema: json.RawMessage(`{"type":"object","properties":{"file":{"type":"string"},"first_line":{"type":"integer","minimum":1},"last_line":{"type":"integer"}},"required":["file","first_line","last_line"],"additionalProperties":false}`),
	},
	{
		Name: "search", Description: "Returns the lines that contain a text, at most 50, with file and number. The text is literal and case-sensitive.",
		Schema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"prefix":{"type":"string","description":"of the paths of the files to search; empty for all files"}},"required":["text","prefix"],"additionalProperties":false}`),
	},
	{
		Name: "edit", Description: "Replaces the lines from first_line to last_line, both included, by a text. With last_line = first_line - 1 it inserts the text before first_line. With an empty text it removes the lines.",
		Schema: json.RawMessage(`{"type":"object","properties":{"file":{"type":"string"},"first_line":{"type":"integer","minimum":1},"last_line":{"type":"integer"},"text":{"type":"string"}},"required":["file","first_line","last_line","text"],"additionalProperties":false}`),
	},
	{
		Name: verifyTool, Description: "Reviews the changed code and runs the tests of the repository. Returns the problems, if there are any.",
		Schema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
	},
}

const verifyTool = "verify"

// arguments is the union of the arguments of all tools.
type arguments struct {
	Prefix, File string
	Text         *string
	First        int `json:"first_line"`
	Last         int `json:"last_line"`
}

// use executes a call of a tool other than verify. An error of the context ends the task. Other errors are results for
// the model.
func (t *Tree) use(ctx context.Context, c llm.Call) (string, error) {
	var a arguments
	d := json.NewDecoder(strings.NewReader(c.Arguments))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return "", errors.New("the arguments do not have the form of the tool's schema")
	}
	if a.Text == nil && (c.Name == "search" || c.Name == "edit") {
		return "", errors.New("text is missing")
	}
	switch c.Name {
	case "list":
		return t.list(a.Prefix), nil
	case "read":
		return t.show(ctx, a.File, a.First, a.Last)
	case "search":
		return t.search(ctx, *a.Text, a.Prefix)
	case "edit":
		if err := t.edit(ctx, a.File, a.First, a.Last, *a.Text); err != nil {
			return "", err
		}
		return t.show(ctx, a.File, max(1, a.First-3), a.First+strings.Count(*a.Text, "\n")+3)
	default:
		return "", errors.New("there is no such tool")
	}
}

// list returns the names of the files that begin with a prefix, one a line.
func (t *Tree) list(prefix string) string {
	var b strings.Builder
	n := 0
	for _, name := range t.files {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if n++; n > maxListed || b.Len()+len(name) > maxResult {
			b.WriteString("(there are more)\n")
			break
		}
		b.WriteString(name + "\n")
	}
	if n == 0 {
		return "no file"
	}
	return b.String()
}

// show returns lines of a file as the model sees them, with their numbers.
func (t *Tree) show(ctx context.Context, name string, first, last int) (string, error) {
	text, err := t.read(name)
	if err != nil {
		return "", err
	}
	lines, err := t.view(ctx, name, text)
	if err != nil {
		return "", err
	}
	t.remember(text, lines)
	if first < 1 || first > len(lines) {
		return "", fmt.Errorf("the file has the lines 1 to %d", len(lines))
	}
	last = min(max(last, first), first+maxReadLines-1, len(lines))
	var b strings.Builder
	for i, l := range lines[first-1 : last] {
		if b.Len()+len(l.Text) > maxResult {
			b.WriteString("(the result is full)\n")
			break
		}
		fmt.Fprintf(&b, "%d\t%s\n", first+i, l.Text)
	}
	if last < len(lines) {
		fmt.Fprintf(&b, "(the file has %d lines)\n", len(lines))
	}
	return b.String(), nil
}

// search returns the lines that contain a text, with the names of their files and their numbers.
func (t *Tree) search(ctx context.Context, query, prefix string) (string, error) {
	if query == "" || len(query) > maxQuery || strings.ContainsAny(query, "\r\n") {
		return "", fmt.Errorf("text must have 1 to %d bytes, in one line", maxQuery)
	}
	var b strings.Builder
	matches := 0
	for _, name := range t.files {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		text, err := t.read(name)
		if errors.Is(err, errViewed) {
			b.WriteString("(" + err.Error() + ")\n")
			break
		}
		if err != nil {
			continue
		}
		lines, err := t.view(ctx, name, text)
		if err != nil {
			return "", err
		}
		found := false
		for i, l := range lines { // the shown text, since the result and the duration must not depend on hidden data
			if !strings.Contains(l.Text, query) {
				continue
			}
			if matches++; matches > maxMatches || b.Len()+len(l.Text) > maxResult {
				b.WriteString("(there are more)\n")
				return b.String(), nil
			}
			if !found {
				found = true
				t.remember(text, lines)
			}
			fmt.Fprintf(&b, "%s:%d\t%s\n", name, i+1, l.Text)
		}
	}
	if b.Len() == 0 {
		return "no line", nil
	}
	return b.String(), nil
}
