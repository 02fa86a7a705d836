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

// Limits of what a document shows of an insight's attributes.
const (
	maxEvidence = 20 // attributes
	maxShown    = 8  // items of a list
)

// Names of attributes that are not shown as what they are.
const (
	observations       = "observations_total"
	violations         = "violations_total"
	resourceAttributes = "resource_attributes"
	samplingRate       = "sampling_rate"
	spanNames          = "span_names"
	units              = "units"
	share              = "violations_share" // made here
)

// evidenceOf returns what of an insight's attributes a document shows. What is
// not known here, such as an attribute that a newer version wrote, passes the same
// filters.
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

// textOf returns what is shown of a text: of a JSON array its items, of a list
// with commas its parts, else the text itself.
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

// listOf returns the items as they are shown, each once, in their order, and how
// many more there are. Items that become the same when ids are taken out of them
// are one.
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

// place is how this program says where in telemetry something stands.
var place = regexp.MustCompile(`^[a-z]+( [a-z]+){0,2}$`)

// finding returns of what kind sensitive data is and where it stands: "email in
// span attribute user.contact". The place is in words of this program, the key
// behind it is not.
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

// resource attributes whose values say how to fix something, and are chosen from
// few: the ones of the SDK and of the runtime.
var shownResource = []string{
	"telemetry.sdk.language", "telemetry.sdk.name", "telemetry.sdk.version", "telemetry.distro.name", "telemetry.distro.version",
	"process.runtime.name", "process.runtime.version", "os.type", "cloud.provider", "cloud.platform",
}

// resourceOf returns what is shown of the resource attributes: few values, and
// which platform the others speak of.
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

// number returns a count, as Go code or JSON has it.
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
	return n, n >= 0 // which NaN is not
}

// magnitudes are the powers of ten that a count is at least.
var magnitudes = []string{
	"tens", "hundreds", "thousands", "tens of thousands", "hundreds of thousands",
	"millions", "tens of millions", "hundreds of millions", "billions",
}

// magnitude returns the order of magnitude of a count. A busy service changes its
// counts every minute; this way a summary is made anew once in a tenfold.
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

// shareOf returns a share in words.
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
