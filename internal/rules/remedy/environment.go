// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"fmt"
	"regexp"
	"strings"
)

// variable is the environment variable that several remedies extend. Each remedy shows
// the same attributes, so that following one does not undo another.
const variable = "OTEL_RESOURCE_ATTRIBUTES"

// described are the attributes that a complete line keeps as the service sends them. It
// leaves service.instance.id out: a constant would be the same for all instances.
var described = []string{"service.namespace", "service.version", "deployment.environment.name", "service.criticality"}

// maxValueBytes limits a value in a complete line.
const maxValueBytes = 128

// assigned matches the attributes of the variable in a shell command and in a manifest.
var assigned = regexp.MustCompile(`(?m)^(export ` + variable + `="\$\{[^}]*\})([^"\n]*)"$|^( *- name: ` + variable + `\n +value: )(.*)$`)

// complete adds the described attributes of a resource to the attributes of the variable.
// The attributes in the text take precedence.
func (t template) complete(resource map[string]any) string {
	if len(t.places) == 0 {
		return t.text
	}
	var b strings.Builder
	end := 0
	for _, m := range t.places {
		pairs := m[4:6]
		if m[2] < 0 { // in a manifest
			pairs = m[8:10]
		}
		b.WriteString(t.text[end:pairs[0]])
		end = pairs[0]
		set := make(map[string]bool)
		for pair := range strings.SplitSeq(t.text[pairs[0]:pairs[1]], ",") {
			key, _, _ := strings.Cut(pair, "=")
			set[key] = true
		}
		for _, key := range described {
			if value, ok := known(resource, key); ok && !set[key] {
				b.WriteString(key + "=" + encode(value) + ",")
			}
		}
	}
	b.WriteString(t.text[end:])
	return b.String()
}

// known returns an attribute of a resource that a line may have.
func known(resource map[string]any, key string) (value string, ok bool) {
	value, _ = resource[key].(string)
	return value, value != "" && len(value) <= maxValueBytes && !strings.Contains(value, redacted)
}

// encode percent-encodes the characters with a meaning in the variable, in a shell or in YAML.
//
// Source: https://opentelemetry.io/docs/specs/otel/resource/sdk/#specifying-resource-information-via-an-environment-variable
func encode(value string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._/:@+", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
