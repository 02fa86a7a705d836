// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"assay/internal/rules/sensitive"
)

// Limits of the attributes of an insight in a document.
const (
	maxEvidence = 20 // attributes
	maxShown    = 8  // items of a list
)

// Names of attributes that a document shows in another form.
const (
	observations       = "observations_total"
	violations         = "violations_total"
	resourceAttributes = "resource_attributes"
	samplingRate       = "sampling_rate"
	spanNames          = "span_names"
	units              = "units"
	share              = "violations_share" // computed from the counts
)

// evidenceOf returns the attributes of an insight as a document shows them. Unknown
// attributes, such as those of a newer version, pass the same filters.
func evidenceOf(attributes map[string]any) map[string]any {
	shown := make(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		if len(shown) == maxEvidence {
			break
		}
		if name(key) != key {
			continue
		}
		switch v := attributes[key].(type) {
		case string:
			switch {
			case key == resourceAttributes:
				shown[key] = resourceOf(v)
			case sensitive.Named([]byte(key), []byte(v)) != sensitive.None && !strings.HasPrefix(v, "["):
				shown[key] = notShown("sensitive data")
			default:
				shown[key] = textOf(key, v)
			}
		case bool:
			shown[key] = v
		default:
			n, ok := number(v)
			switch {
			case !ok:
			case key == samplingRate:
				shown[key] = shareOf(n)
			default:
				shown[key] = magnitude(n)
			}
		}
	}
	observed, ok1 := number(attributes[observations])
	failed, ok2 := number(attributes[violations])
	if ok1 && ok2 && observed > 0 {
		shown[share] = shareOf(failed / observed)
	}
	return shown
}

// textOf returns the form of a text for the document: the items of a JSON array, the
// parts of a comma-separated list, or else the text itself.
func textOf(key, text string) any {
	show := name
	switch key {
	case spanNames:
		show = spanName
	case units:
		show = unit
	}
	if !strings.HasPrefix(text, "[") {
		parts := strings.Split(text, ", ")
		if len(parts) == 1 {
			return show(text)
		}
		return listOf(parts, show)
	}
	var items []string
	if json.Unmarshal([]byte(text), &items) == nil {
		return listOf(items, show)
	}
	var findings []struct{ Where, Kind string }
	if json.Unmarshal([]byte(text), &findings) == nil {
		items = items[:0]
		for _, f := range findings {
			items = append(items, finding(f.Where, f.Kind))
		}
		return listOf(items, func(s string) string { return s })
	}
	return notShown("not a list")
}

// listOf returns the distinct items in their shown form and order, and how many were
// omitted. Items that differ only in their ids count as one.
func listOf(items []string, show func(string) string) []string {
	shown := []string{}
	more := 0
	for _, item := range items {
		s := show(item)
		switch {
		case slices.Contains(shown, s):
		case len(shown) == maxShown:
			more++
		default:
			shown = append(shown, s)
		}
	}
	if more > 0 {
		shown = append(shown, fmt.Sprintf("(more: %s)", magnitude(float64(more))))
	}
	return shown
}

// place matches the locations in telemetry that the rules report, such as "span attribute".
var place = regexp.MustCompile(`^[a-z]+( [a-z]+){0,2}$`)

// finding returns the kind and the location of sensitive data: "email in span attribute
// user.contact". The location is a text of this program. The key after it comes from
// telemetry.
func finding(where, kind string) string {
	at, key, keyed := strings.Cut(where, ": ")
	switch {
	case !place.MatchString(at) || reads(at) != "":
		at = "telemetry"
	case keyed:
		at += " " + name(key)
	}
	return name(kind) + " in " + at
}

// shownResource lists the resource attributes whose values are shown, because a fix depends on them and they have few
// possible values: those of the SDK, the runtime and the platform.
var shownResource = []string{
	"telemetry.sdk.language", "telemetry.sdk.name", "telemetry.sdk.version", "telemetry.distro.name", "telemetry.distro.version",
	"process.runtime.name", "process.runtime.version", "os.type", "cloud.provider", "cloud.platform",
}

// resourceOf returns the resource attributes for the document: the values of
// shownResource, and the platforms that the other keys indicate.
func resourceOf(text string) map[string]any {
	shown := make(map[string]any)
	var attributes map[string]any
	if json.Unmarshal([]byte(text), &attributes) != nil {
		return shown
	}
	for _, key := range shownResource {
		if v, ok := attributes[key].(string); ok && v != "" {
			if v = versionPart(key, v); !strings.HasPrefix(v, "(") {
				shown[key] = v
			}
		}
	}
	for key := range attributes {
		switch prefix, _, _ := strings.Cut(key, "."); prefix {
		case "k8s", "container", "host", "faas":
			shown[prefix] = true
		}
	}
	return shown
}

// number returns a count that was set by Go code or decoded from JSON.
func number(v any) (float64, bool) {
	var n float64
	switch v := v.(type) {
	case int:
		n = float64(v)
	case int64:
		n = float64(v)
	case uint64:
		n = float64(v)
	case float64:
		n = v
	default:
		return 0, false
	}
	return n, n >= 0 // false for NaN
}

// magnitudes are names of the powers of ten from 10.
var magnitudes = []string{
	"tens", "hundreds", "thousands", "tens of thousands", "hundreds of thousands",
	"millions", "tens of millions", "hundreds of millions", "billions",
}

// magnitude returns the order of magnitude of a count. The counts of a busy service change every minute, but a summary
// is regenerated only when the order of magnitude changes.
func magnitude(n float64) string {
	switch {
	case n == 0:
		return "none"
	case n < 1:
		return "less than 1"
	case n < 2:
		return "one"
	case n < 10:
		return "a few"
	}
	i := -1
	for ; n >= 10 && i < len(magnitudes)-1; n /= 10 {
		i++
	}
	return magnitudes[i]
}

// shareOf describes a fraction in words.
func shareOf(x float64) string {
	switch {
	case x == 0:
		return "none"
	case x < 0.01:
		return "less than 1 %"
	case x < 0.1:
		return "1 to 10 %"
	case x < 0.5:
		return "10 to 50 %"
	case x < 0.95:
		return "50 to 95 %"
	default:
		return "almost all"
	}
}
