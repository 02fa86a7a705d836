// SPDX-License-Identifier: Apache-2.0

package score

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/rules/semconv"
)

// signalTypes holds the signal names in the evidence of insights.
var signalTypes = [delta.SignalCount]string{"TRACES", "METRICS", "LOGS"}

// signalType returns the signal name of an example, or of the rule if there is none.
func signalType(r catalog.Rule, e *delta.Example) string {
	if e != nil && e.Signal < delta.SignalCount {
		return signalTypes[e.Signal]
	}
	switch r.Info().Signal {
	case assay.SignalMetric:
		return signalTypes[delta.Metrics]
	case assay.SignalLog:
		return signalTypes[delta.Logs]
	default:
		return signalTypes[delta.Traces]
	}
}

// finding is a finding of a rule about sensitive data.
type finding struct {
	Where string `json:"where"`
	Kind  string `json:"kind"`
}

// attributes returns the evidence of a failing rule for its insight.
func attributes(r catalog.Rule, f *delta.Facts, c delta.Count, claims Claims) map[string]any {
	example := f.Examples[r]
	a := map[string]any{
		"signal_type":         signalType(r, example),
		"resource_attributes": "{}",
		"observations_total":  int64(c.Observed),
		"violations_total":    int64(c.Failed),
	}
	if example != nil {
		a["resource_attributes"] = example.ResourceAttributes
		if example.SamplingRate > 0 {
			a["sampling_rate"] = example.SamplingRate
		}
	}
	lists := make(map[delta.List][]string)
	for it := range f.Items {
		if it.Rule == r {
			lists[it.List] = append(lists[it.List], it.Text)
		}
	}
	switch r {
	case catalog.MET003:
		lists[delta.MetricNames], lists[delta.Units] = claims[r].Keys, claims[r].Values
	case catalog.MET004:
		lists[delta.MetricNames] = claims[r].Keys
	}
	for list, texts := range lists {
		texts = bounded(texts)
		switch list {
		case delta.MissingAttribute:
			a[list.String()] = strings.Join(texts, ", ")
		case delta.Findings:
			findings := make([]finding, len(texts))
			for i, t := range texts {
				findings[i].Where, findings[i].Kind, _ = strings.Cut(t, delta.FindingSeparator)
			}
			a[list.String()] = encode(findings)
		default:
			a[list.String()] = encode(texts)
		}
	}
	if r == catalog.DeprecatedAttributes {
		if texts := renamed(lists[delta.AttributeKeys]); len(texts) > 0 {
			a["renamed_to"] = encode(texts)
		}
	}
	return a
}

// renamed returns a text "key:successor" for every key that has a successor.
func renamed(keys []string) (texts []string) {
	for _, key := range bounded(keys) {
		if successor := semconv.Successor(key); successor != "" {
			texts = append(texts, key+":"+successor)
		}
	}
	return texts
}

// bounded returns the texts sorted, limited to the smallest ones.
func bounded(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	texts = slices.Compact(texts)
	return texts[:min(len(texts), delta.MaxItems)]
}

// encode returns a list of texts or findings as JSON. It cannot fail, because the strings are valid UTF-8.
func encode(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n")
}

// exampleOf returns the trace id and event time of a rule's example.
func exampleOf(e *delta.Example) (traceID string, at time.Time) {
	if e == nil {
		return "", time.Time{}
	}
	if e.TraceID != ([16]byte{}) {
		traceID = hex.EncodeToString(e.TraceID[:])
	}
	return traceID, time.Unix(0, int64(e.TimeUnixNano)).UTC().Truncate(time.Microsecond)
}
