// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/rules/catalog"
	"assay/internal/safetext"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func ptr[T any](v T) *T { return &v }

// sample is a report with all optional parts.
func sample() *Report {
	return &Report{
		Services: []Service{
			{
				Name: "accounts", Namespace: "shop", Environment: "production", Version: "3.1.4",
				Score: ptr(64), ScoreExact: ptr(63.86), Category: "Needs Improvement",
				EvaluatedRuleIDs: []string{"LOG-001", "LOG-003", "RES-001", "RES-005", "RES-007", "SPA-001", "SPA-006"},
				FailedRuleIDs:    []string{"LOG-003", "RES-001", "SPA-001", "SPA-006"},
				Insights: []Insight{
					{Name: "sensitive_log_data", RuleID: "LOG-003", Impact: assay.ImpactCritical, Attributes: map[string]any{
						"signal_type": "LOGS", "resource_attributes": `{"service.name":"accounts"}`,
						"observations_total": int64(12_345), "violations_total": int64(1_200),
						"findings": `[{"where":"body","kind":"payment_card"},{"where":"attribute: user.email","kind":"email"}]`,
					}},
					{Name: "sensitive_span_data", RuleID: "SPA-006", Impact: assay.ImpactCritical, Attributes: map[string]any{
						"signal_type": "TRACES", "observations_total": int64(9), "violations_total": int64(9),
						"findings": `[{"where":"attribute: url.full","kind":"email"}]`, "span_names": `["GET /accounts","GET /accounts/{id}","POST /accounts","PUT /accounts/{id}","DELETE /accounts/{id}","PATCH /accounts/{id}","GET"]`,
					}},
					{Name: "default_service_name", RuleID: "", Impact: assay.ImpactImportant, Attributes: map[string]any{
						"observations_total": int64(3), "violations_total": int64(1),
					}},
					{Name: "excessive_internal_spans", RuleID: "SPA-001", Impact: assay.ImpactNormal, Attributes: map[string]any{
						"observations_total": int64(40), "violations_total": int64(2), "span_names": `["rank",""]`, "sampling_rate": 0.5,
					}},
					{Name: "missing_service_instance_id", RuleID: "RES-001", Impact: assay.ImpactNormal, Attributes: map[string]any{
						"observations_total": int64(1), "violations_total": int64(1), "missing_attribute": "service.instance.id",
					}},
				},
			},
			{
				Name: "assay_overflow", EvaluatedRuleIDs: nil, FailedRuleIDs: nil,
				Insights: []Insight{{Name: "quota_exceeded", Impact: assay.ImpactImportant}},
			},
			{
				Name: "checkout", Score: ptr(100), ScoreExact: ptr(100.0), Category: "Excellent",
				EvaluatedRuleIDs: []string{"RES-001", "RES-005"}, FailedRuleIDs: []string{}, Insights: []Insight{},
			},
		},
		Window: Window{
			Start: time.Date(2026, 4, 6, 8, 0, 0, 0, time.UTC),
			End:   time.Date(2026, 5, 6, 8, 30, 0, 123_456_789, time.UTC),
		},
		Totals: Totals{Spans: 12_345_678, MetricDataPoints: 1, LogRecords: 0, Bytes: 5 << 20},
	}
}

func written(t testing.TB, format string, r *Report, opt Options) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, format, r, opt))
	return b.String()
}

func TestGolden(t *testing.T) {
	opt := Options{Version: "1.2.3", Inputs: []string{"recordings/monday morning.jsonl", "other.pb"}}
	colored := opt
	colored.Color, colored.Width = true, 100
	for name, c := range map[string]struct {
		format string
		report *Report
		opt    Options
	}{
		"report.txt":       {"text", sample(), opt},
		"report-color.txt": {"text", sample(), colored},
		"report.json":      {"json", sample(), opt},
		"report.md":        {"markdown", sample(), opt},
		"report.junit.xml": {"junit", sample(), opt},
		"report.sarif":     {"sarif", sample(), opt},
		"empty.txt":        {"text", &Report{}, opt},
		"empty.json":       {"json", &Report{}, opt},
		"empty.md":         {"markdown", &Report{}, opt},
		"empty.junit.xml":  {"junit", &Report{}, opt},
	} {
		t.Run(name, func(t *testing.T) {
			got := written(t, c.format, c.report, c.opt)
			if c.format == "sarif" {
				got = withoutRules(t, got)
			}
			path := filepath.Join("testdata", name)
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
			}
		})
	}
}

// withoutRules returns SARIF without the rules, which hold every text of the catalog.
func withoutRules(t *testing.T, sarif string) string {
	t.Helper()
	var log sarifLog
	require.NoError(t, json.Unmarshal([]byte(sarif), &log))
	log.Runs[0].Tool.Driver.Rules = log.Runs[0].Tool.Driver.Rules[:0]
	var b bytes.Buffer
	require.NoError(t, encodeJSON(&b, log))
	return b.String()
}

func TestWriteDoesNotModifyReport(t *testing.T) {
	for _, format := range Formats() {
		r := sample()
		r.Services[0].Insights[0], r.Services[0].Insights[4] = r.Services[0].Insights[4], r.Services[0].Insights[0]
		want := sample()
		want.Services[0].Insights[0], want.Services[0].Insights[4] = want.Services[0].Insights[4], want.Services[0].Insights[0]
		written(t, format, r, Options{})
		require.Equal(t, want, r, format)
	}
}

func TestUnknownFormat(t *testing.T) {
	var b bytes.Buffer
	err := Write(&b, "html", sample(), Options{})
	require.ErrorContains(t, err, `"html"`)
	require.Zero(t, b.Len())
}

func TestJSONIsTheContract(t *testing.T) {
	var got struct {
		Services []map[string]any `json:"services"`
		Window   map[string]any   `json:"window"`
		Totals   map[string]any   `json:"totals"`
	}
	dec := json.NewDecoder(strings.NewReader(written(t, "json", sample(), Options{})))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&got))
	require.Equal(t, map[string]any{"start": "2026-04-06T08:00:00Z", "end": "2026-05-06T08:30:00.123456Z"}, got.Window)
	require.Equal(t, map[string]any{"spans": 12_345_678.0, "metric_data_points": 1.0, "log_records": 0.0, "bytes": 5242880.0}, got.Totals)
	overflow := got.Services[1]
	require.Equal(t, map[string]any{
		"name": "assay_overflow", "namespace": "", "environment": "", "version": "",
		"score": nil, "score_exact": nil, "category": "",
		"evaluated_rule_ids": []any{}, "failed_rule_ids": []any{},
		"insights": []any{map[string]any{"name": "quota_exceeded", "rule_id": "", "impact": "Important", "attributes": map[string]any{}}},
	}, overflow)
	require.Equal(t, 63.86, got.Services[0]["score_exact"])
}

// readJUnit is JUnit XML as its consumers decode it.
type readJUnit struct {
	XMLName  xml.Name `xml:"testsuites"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Suites   []struct {
		Name     string `xml:"name,attr"`
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Out      string `xml:"system-out"`
		Cases    []struct {
			Name      string `xml:"name,attr"`
			ClassName string `xml:"classname,attr"`
			Failure   *struct {
				Message string `xml:"message,attr"`
				Type    string `xml:"type,attr"`
				Text    string `xml:",chardata"`
			} `xml:"failure"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func TestJUnitHasACaseForEachRule(t *testing.T) {
	var got readJUnit
	require.NoError(t, xml.Unmarshal([]byte(written(t, "junit", sample(), Options{})), &got))
	require.Equal(t, 9, got.Tests)
	require.Equal(t, 4, got.Failures)
	require.Len(t, got.Suites, 3)

	accounts := got.Suites[0]
	require.Equal(t, "shop/accounts (production, 3.1.4)", accounts.Name)
	require.Equal(t, 7, accounts.Tests)
	require.Equal(t, 4, accounts.Failures)
	require.Len(t, accounts.Cases, 7)
	require.NotEmpty(t, accounts.Out, "the insight without a rule")
	var failed []string
	for _, c := range accounts.Cases {
		require.Equal(t, accounts.Name, c.ClassName)
		if c.Failure != nil {
			failed = append(failed, c.Name[:7])
		}
	}
	require.Equal(t, sample().Services[0].FailedRuleIDs, failed)
	logs := accounts.Cases[1]
	require.Equal(t, "LOG-003 Sensitive data in logs", logs.Name)
	require.Equal(t, "Critical", logs.Failure.Type)
	require.Contains(t, logs.Failure.Message, "1,200 of 12,345 observations failed.")
	require.Contains(t, logs.Failure.Text, "payment_card in body, email in attribute: user.email")
	require.Contains(t, logs.Failure.Text, catalog.LOG003.Info().Remediation)

	require.Empty(t, got.Suites[1].Cases)
	require.Zero(t, got.Suites[2].Failures)
	require.Len(t, got.Suites[2].Cases, 2)
}

// readSARIF holds the properties that SARIF 2.1.0 requires and those that a report adds.
type readSARIF struct {
	Schema  string `json:"$schema"`
	Version string `json:"version"`
	Runs    []struct {
		Tool struct {
			Driver struct {
				Name    string `json:"name"`
				Version string `json:"version"`
				Rules   []struct {
					ID               string                          `json:"id"`
					Name             string                          `json:"name"`
					ShortDescription struct{ Text string }           `json:"shortDescription"`
					FullDescription  struct{ Text string }           `json:"fullDescription"`
					HelpURI          string                          `json:"helpUri"`
					Help             struct{ Text, Markdown string } `json:"help"`
					Default          struct {
						Level string
						Rank  float64
					} `json:"defaultConfiguration"`
				} `json:"rules"`
			} `json:"driver"`
		} `json:"tool"`
		Results []struct {
			RuleID    string                `json:"ruleId"`
			RuleIndex int                   `json:"ruleIndex"`
			Kind      string                `json:"kind"`
			Level     string                `json:"level"`
			Message   struct{ Text string } `json:"message"`
			Locations []struct {
				Physical *struct {
					Artifact struct{ URI string } `json:"artifactLocation"`
					Region   struct{ StartLine int }
				} `json:"physicalLocation"`
				Logical []struct{ FullyQualifiedName string } `json:"logicalLocations"`
			} `json:"locations"`
			Fingerprints map[string]string `json:"partialFingerprints"`
		} `json:"results"`
	} `json:"runs"`
}

func TestSARIFRequiredProperties(t *testing.T) {
	var got readSARIF
	require.NoError(t, json.Unmarshal([]byte(written(t, "sarif", sample(), Options{Version: "1.2.3", Inputs: []string{"a b.jsonl"}})), &got))
	require.Equal(t, "2.1.0", got.Version)
	require.Contains(t, got.Schema, "sarif-schema-2.1.0.json")
	require.Len(t, got.Runs, 1)
	run := got.Runs[0]
	require.Equal(t, "assay", run.Tool.Driver.Name)
	require.Equal(t, "1.2.3", run.Tool.Driver.Version)

	rules := run.Tool.Driver.Rules
	require.Len(t, rules, catalog.Count)
	ids := make(map[string]bool)
	for _, r := range rules {
		require.NotEmpty(t, r.ID)
		require.False(t, ids[r.ID], "two rules have the id %s", r.ID)
		ids[r.ID] = true
		require.NotEmpty(t, r.ShortDescription.Text, r.ID)
		require.NotEmpty(t, r.FullDescription.Text, r.ID)
		require.Regexp(t, `^https://\S+$`, r.HelpURI, r.ID)
		require.NotEmpty(t, r.Help.Text, r.ID)
		require.NotEmpty(t, r.Help.Markdown, r.ID)
		require.Contains(t, []string{"error", "warning", "note"}, r.Default.Level, r.ID)
		require.True(t, r.Default.Rank > 0 && r.Default.Rank <= 100, r.ID)
	}

	require.Len(t, run.Results, 6)
	prints := make(map[string]bool)
	levels := make(map[string]string)
	for _, r := range run.Results {
		require.Equal(t, rules[r.RuleIndex].ID, r.RuleID)
		require.Equal(t, "fail", r.Kind)
		require.NotEmpty(t, r.Message.Text)
		require.Len(t, r.Locations, 1)
		require.Equal(t, "a%20b.jsonl", r.Locations[0].Physical.Artifact.URI)
		require.Equal(t, 1, r.Locations[0].Physical.Region.StartLine)
		require.NotEmpty(t, r.Locations[0].Logical[0].FullyQualifiedName)
		require.NotEmpty(t, r.Fingerprints[fingerprint])
		require.False(t, prints[r.Fingerprints[fingerprint]], "two results have the same fingerprint")
		prints[r.Fingerprints[fingerprint]] = true
		levels[r.RuleID] = r.Level
	}
	require.Equal(t, map[string]string{
		"LOG-003": "error", "SPA-006": "error", "default_service_name": "error", "quota_exceeded": "error",
		"RES-001": "warning", "SPA-001": "warning",
	}, levels)
}

func TestSARIFWithoutFilesHasLogicalLocationsOnly(t *testing.T) {
	var got readSARIF
	require.NoError(t, json.Unmarshal([]byte(written(t, "sarif", sample(), Options{})), &got))
	for _, r := range got.Runs[0].Results {
		require.Nil(t, r.Locations[0].Physical)
		require.NotEmpty(t, r.Locations[0].Logical)
	}
}

func TestSARIFOfNothingHasAnEmptyList(t *testing.T) {
	require.Contains(t, written(t, "sarif", &Report{}, Options{}), `"results": []`)
}

func TestSARIFLevels(t *testing.T) {
	require.Equal(t, "error", sarifLevel(assay.ImpactCritical))
	require.Equal(t, "error", sarifLevel(assay.ImpactImportant))
	require.Equal(t, "warning", sarifLevel(assay.ImpactNormal))
	require.Equal(t, "note", sarifLevel(assay.ImpactLow))
}

func TestSARIFArtifacts(t *testing.T) {
	for path, want := range map[string]sarifArtifact{
		"a.jsonl":       {"a.jsonl", sourceRoot},
		"./a.jsonl":     {"a.jsonl", sourceRoot},
		"x/ä.jsonl":     {"x/%C3%A4.jsonl", sourceRoot},
		"/tmp/a#b.pb":   {"file:///tmp/a%23b.pb", ""},
		"c:d.pb":        {"./c:d.pb", sourceRoot},
		"with space.pb": {"with%20space.pb", sourceRoot},
	} {
		require.Equal(t, want, newSARIFArtifact(path))
	}
}

// hostile are texts in telemetry that try to harm readers of reports.
var hostile = []string{
	"\x1b[31mred\x1b]0;title\x07\x1b[2J",
	"\u009b31m\u009d0;x\u009c",
	"abc\u202eevil\u202c\u2066x\u2069\u200f",
	"line\r\nbreak\ttab\v\f\x00nul",
	"\xff\xfe\xc3(",
	"<script>alert(1)</script><img src=x onerror=y>",
	"| a | b |\n|---|---|",
	"`code` ``` [x](javascript:alert(1)) ![i](http://example.com/i.png)",
	"</details></summary>",
	"@everyone #1 **bold** ~~x~~ $x$ :smile: https://example.com",
	"]]> --> <!-- &amp; \" '",
	"\ufeff\ufffe\U000e0041zero\u200bwidth",
	"\u061c\u2028\u2029\ufe0f\U000e0100\u3164\u00ad\x7f\u0085",
	"e" + strings.Repeat("\u0301", 500),
	strings.Repeat("界", 5000),
	strings.Repeat("x", 10<<10),
	strings.Repeat("y ", 5<<10),
	"",
}

// hostileReport returns a report with a hostile text in every field from telemetry.
func hostileReport(s string) *Report {
	list, _ := json.Marshal([]string{s, s + "1", "plain"})
	findings, _ := json.Marshal([]map[string]string{{"where": s, "kind": "email"}})
	return &Report{Services: []Service{{
		Name: s, Namespace: s, Environment: s, Version: s,
		Score: ptr(50), ScoreExact: ptr(50.0), Category: "Needs Improvement",
		EvaluatedRuleIDs: []string{"RES-001", "SPA-006"}, FailedRuleIDs: []string{"RES-001", "SPA-006"},
		Insights: []Insight{
			{Name: "sensitive_span_data", RuleID: "SPA-006", Impact: assay.ImpactCritical, Attributes: map[string]any{
				"span_names": string(list), "findings": string(findings), "resource_attributes": s, s: s,
				"observations_total": int64(2), "violations_total": int64(1),
			}},
			{Name: "missing_service_instance_id", RuleID: "RES-001", Impact: assay.ImpactNormal, Attributes: map[string]any{"missing_attribute": s}},
		},
	}}}
}

func TestHostileNamesAreHarmless(t *testing.T) {
	for n, s := range hostile {
		for _, format := range Formats() {
			t.Run(fmt.Sprintf("%d/%s", n, format), func(t *testing.T) {
				r := hostileReport(s)
				got := written(t, format, r, Options{Inputs: []string{s}})
				require.True(t, utf8.ValidString(got))
				requireHarmless(t, format, s, got)
				if format != "json" { // for programs, complete
					require.Less(t, len(got), 250<<10)
				}
			})
		}
	}
}

// requireHarmless checks a report of hostileReport(s).
func requireHarmless(t *testing.T, format, s, got string) {
	t.Helper()
	for _, c := range got {
		if c != '\n' && c != '\t' { // the catalog's code contains tabs
			require.False(t, safetext.Hidden(c), "%U", c)
		}
	}
	if format == "json" {
		var back Report
		require.NoError(t, json.Unmarshal([]byte(got), &back))
		require.Equal(t, string([]rune(s)), back.Services[0].Name)
	}
}

// FuzzWrite: no format outputs a character that a terminal interprets or hides, and JSON preserves all text.
func FuzzWrite(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, format := range Formats() {
			requireHarmless(t, format, s, written(t, format, hostileReport(s), Options{Inputs: []string{s}}))
		}
	})
}

func TestTextFitsInEightyColumns(t *testing.T) {
	commands := make(map[string]bool) // commands are not wrapped
	for _, r := range catalog.All() {
		for _, b := range parseBlocks(r.Info().Remediation) {
			for _, l := range b.lines {
				commands[strings.TrimSpace(l)] = true
			}
		}
	}
	for _, s := range hostile {
		for line := range strings.Lines(written(t, "text", hostileReport(s), Options{})) {
			line = strings.TrimSuffix(line, "\n")
			if !commands[strings.TrimSpace(line)] {
				require.LessOrEqual(t, columns(line), DefaultWidth, line)
			}
		}
	}
}

func TestMarkdownContainsUntrustedText(t *testing.T) {
	for _, s := range hostile {
		got := written(t, "markdown", hostileReport(s), Options{})
		lines := strings.Split(got, "\n")
		require.True(t, strings.HasPrefix(lines[2], "| Service |"))
		row := strings.NewReplacer(`\|`, "", `\\`, "").Replace(lines[4])
		require.Equal(t, 8, strings.Count(row, "|"), "cells of %q", lines[4])
		require.Empty(t, lines[5])
		require.Equal(t, 1, strings.Count(got, "<details>"))
		require.Equal(t, 1, strings.Count(got, "</details>"))
		require.Equal(t, 1, strings.Count(got, "</summary>"))
		require.NotContains(t, got, "<script>")
		require.NotContains(t, got, "\n```\n```")
	}
}

func TestMarkdownStaysWithinAComment(t *testing.T) {
	r := &Report{}
	for i := range 2000 {
		s := sample().Services[0]
		s.Name = fmt.Sprintf("service-%d", i)
		r.Services = append(r.Services, s)
	}
	got := written(t, "markdown", r, Options{})
	require.Less(t, utf8.RuneCountInString(got), 65_536)
	require.Contains(t, got, "more services are left out")
	require.Contains(t, got, "more services with findings are left out")
}

func TestPrintable(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"plain", 10, "plain"},
		{"exactly-10", 10, "exactly-10"},
		{"one more-11", 10, "one more-…"},
		{"a\nb\tc", 10, "a b c"},
		{"\x1b[0m", 10, "\ufffd[0m"},
		{"\u202ex", 10, "\ufffdx"},
		{"\xffx", 10, "\ufffdx"},
		{"界界界", 6, "界界界"},
		{"界界界", 5, "界界…"},
		{"e\u0301\u0301\u0301\u0301\u0301", 3, "e\u0301\u0301\u0301"},
		{"x", 1, "x"},
		{"xy", 1, "…"},
		{"x", 0, ""},
		{"", 5, ""},
	} {
		require.Equal(t, c.want, Printable(c.in, c.limit), "%q to %d", c.in, c.limit)
	}
}

func FuzzPrintable(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, 20)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = min(limit, 1000)
		got := Printable(s, limit)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, columns(got), max(limit, 0))
		for _, r := range got {
			require.False(t, safetext.Hidden(r), "%U", r)
		}
		require.Equal(t, got, Printable(got, limit), "Printable is idempotent")
	})
}

func FuzzListed(f *testing.F) {
	for _, s := range []string{"", "x", `["a","b"]`, `[{"where":"a","kind":"b"}]`, `[1,2]`, `[[`, "[null]", `["a",{"where":1}]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		i := Insight{Attributes: map[string]any{"span_names": s}}
		for _, fact := range i.evidence() {
			require.NotEmpty(t, fact.values)
			require.LessOrEqual(t, len(fact.values), maxFactValues)
		}
	})
}

func TestListed(t *testing.T) {
	for in, want := range map[string][]string{
		"service.name":                  {"service.name"},
		`["a",""]`:                      {"a", "(empty)"},
		`[{"where":"body","kind":"x"}]`: {"x in body"},
		`[1]`:                           {"[1]"},
		`[broken`:                       {"[broken"},
	} {
		require.Equal(t, want, listed(in), in)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB", 5 << 30: "5.0 GiB", 1<<64 - 1: "16.0 EiB",
	} {
		require.Equal(t, want, Bytes(n))
	}
}

func TestFirstStep(t *testing.T) {
	text := func(blocks []block) (out []string) {
		for _, b := range blocks {
			if b.kind == code {
				out = append(out, strings.Join(b.lines, "|"))
			} else {
				out = append(out, b.text)
			}
		}
		return out
	}
	for in, want := range map[string][]string{
		"### SDK\n\nDo this.\n\nThen that.":              {"Do this."},
		"### SDK\n\nDo\nthis:\n\n```sh\na\nb\n```\nmore": {"Do this:", "a|b"},
		"Do one of:\n\n- a\n- b\n  b\n\nmore":            {"Do one of:", "a", "b b"},
		"```sh\n1\n2\n3\n4\n5\n6\n7\n```":                {"1|2|3|4|5|6|..."},
		"### only":                                       nil,
		"":                                               nil,
	} {
		require.Equal(t, want, text(firstStep(in)), in)
	}
	for _, r := range catalog.All() {
		require.NotEmpty(t, firstStep(r.Info().Remediation), r.Info().Name)
		require.NotEmpty(t, helpLink(r.Info().Remediation), r.Info().Name)
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, Table(&b, []string{"A", "LONGER"}, [][]string{{"界", "x"}, {"abc\x1b"}, {"a", "b", "left out"}}))
	require.Equal(t, "A     LONGER\n界    x\nabc\ufffd\na     b\n", b.String())
}

func TestMarkdownForTheTerminal(t *testing.T) {
	const text = "# Title\n\nA [link](https://example.com/x) and `code` in\na paragraph.\n\n- one\n- two\n  more\n\n```go\n\tif x {\n```\n"
	var b bytes.Buffer
	require.NoError(t, Markdown(&b, text, Options{}))
	require.Equal(t, "TITLE\n\nA link <https://example.com/x> and `code` in a paragraph.\n\n- one\n- two more\n\n        if x {\n", b.String())
	b.Reset()
	require.NoError(t, Markdown(&b, text, Options{Color: true}))
	require.Contains(t, b.String(), "\x1b[1mTitle\x1b[0m")
}

// TestMarkdownText: GitHub finds no mention, reference or link in an untrusted text.
func TestMarkdownText(t *testing.T) {
	for text, want := range map[string]string{
		"@octocat fixes #12": "&#64;&#8203;octocat fixes &#35;&#8203;12", "see GH-3": "see GH-&#8203;3", "www.example.com": "www&#8203;.example.com",
		"https://example.com": `https\://example.com`, "gh-pages": "gh-pages", "a|b<c>": `a\|b&lt;c&gt;`,
	} {
		require.Equal(t, want, MarkdownText(text, 100))
	}
}
