// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay"
)

// fact is one piece of evidence for display.
type fact struct {
	name   string
	values []string
	more   int // number of omitted values
}

// String returns the fact as one line.
func (f fact) String() string { return f.join(f.values) }

// join is String with the given representation of the values.
func (f fact) join(values []string) string {
	s := f.name + ": " + strings.Join(values, ", ")
	if f.more > 0 {
		s += fmt.Sprintf(" and %d more", f.more)
	}
	return s
}

// Limits for displaying evidence.
const (
	maxFactValues = 5
	maxFactValue  = 60
)

// evidenceNames maps the evidence that a report shows to its label.
var evidenceNames = map[string]string{
	"missing_attribute":      "missing attribute",
	"metric_names":           "metrics",
	"attribute_keys":         "attributes",
	"renamed_to":             "renamed",
	"discouraged_attributes": "attributes",
	"span_names":             "spans",
	"units":                  "units",
	"findings":               "found",
}

// share returns how many observations failed, or "" if unknown.
func (i *Insight) share() string {
	failed, observed, ok := assay.FailureCounts(i.Attributes)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s of %s failed", grouped(failed), count(observed, "observation", "observations"))
}

// evidence returns the evidence of an insight for display, printable and shortened.
func (i *Insight) evidence() []fact {
	var facts []fact
	for _, key := range slices.Sorted(maps.Keys(i.Attributes)) {
		name, shown := evidenceNames[key]
		text, isText := i.Attributes[key].(string)
		if !shown || !isText {
			continue
		}
		f := fact{name: name}
		all := listed(text)
		for _, v := range all[:min(len(all), maxFactValues)] {
			f.values = append(f.values, Printable(v, maxFactValue))
		}
		f.more = len(all) - len(f.values)
		if len(f.values) > 0 {
			facts = append(facts, f)
		}
	}
	return facts
}

// listed returns the items of a piece of evidence: the items of a JSON array of texts or findings, or the text
// itself.
func listed(text string) []string {
	if !strings.HasPrefix(text, "[") {
		return []string{text}
	}
	var texts []string
	if err := json.Unmarshal([]byte(text), &texts); err == nil {
		for i, t := range texts {
			if t == "" {
				texts[i] = "(empty)"
			}
		}
		return texts
	}
	texts = nil
	var findings []struct {
		Where string `json:"where"`
		Kind  string `json:"kind"`
	}
	if err := json.Unmarshal([]byte(text), &findings); err != nil {
		return []string{text}
	}
	for _, f := range findings {
		texts = append(texts, f.Kind+" in "+f.Where)
	}
	return texts
}
