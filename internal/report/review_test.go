// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"assay/internal/review"
	"assay/internal/review/check"
	"assay/internal/safetext"
)

var sampleChecks = []*check.Check{
	{
		ID: "span-name-dynamic", Title: "Span name is built from variables", Category: check.Volume, Severity: check.High, Rules: []string{"SPA-003"},
		Why: "Each name is a *new* group. Backends keep one series for each.\n\nMore text.",
		Fix: "Use a constant name and put the values into attributes:\n\n```go\ntracer.Start(ctx, \"GET /cart\")\n```\n\nSee [the conventions](https://opentelemetry.io/docs/specs/semconv/).",
	},
	{
		ID: "secret-in-config", Title: "Configuration has a literal credential", Category: check.SensitiveData, Severity: check.Critical, Rules: nil,
		Why: "A reader of the repository can use it.", Fix: "Replace it by a variable.", Masked: true,
	},
	{
		ID: "metric-unit", Title: "Instrument has no unit", Category: check.Governance, Severity: check.Medium, Rules: []string{"MET-002"},
		Why: "A value without a unit cannot be read.", Fix: "Give the unit.",
	},
}

const hostileName = "evil\u202e\x1b[31m|<img src=x>`@all`/\xff.go"

// sampleReview is a report with all optional parts.
func sampleReview() *review.Report {
	finding := func(c *check.Check, id, file string, line int, subject, message string, d review.Detail) review.Finding {
		d.Subject = subject
		return review.Finding{
			ID: id, Check: c.ID, Rules: append([]string{}, c.Rules...), Severity: c.Severity, Category: c.Category,
			Title: c.Title, DisplayTitle: c.Title + ": " + subject, Summary: message, Why: c.Why, Fix: c.Fix,
			Locations: []review.Location{{File: file, Line: line, Description: message}}, Status: "active", Detail: &d,
		}
	}
	long := strings.Repeat("x", 150)
	return &review.Report{
		Instrumentation: review.Instrumentation{
			OTelPresent: true, Signals: []string{"traces"}, DetectedSDKs: []string{"go.opentelemetry.io/otel v1.40.0"}, Types: []string{"manual"},
			Languages: []string{"go"}, Services: []string{"cart"}, Summary: "The code is in Go. It uses OpenTelemetry for traces, with manual instrumentation.",
		},
		Findings: []review.Finding{
			finding(sampleChecks[0], "otel-0123456789ab", "cart/handler.go", 42, "GET /cart/", "The name has the variable id.",
				review.Detail{Column: 31, EndLine: 42, EndColumn: 45, Code: "\tctx, span := tracer.Start(ctx, \"GET /cart/\"+id)", Mark: 32, MarkEnd: 47, Symbol: "Handler.Get"}),
			finding(sampleChecks[0], "otel-0123456789ac", "cart/handler.go", 50, "漢字", "The name has two variables.",
				review.Detail{Column: 2, EndLine: 52, EndColumn: 3, Code: "\tstart(\"漢字\", " + long + ", f(a", Mark: 162, MarkEnd: 170}),
			finding(sampleChecks[1], "otel-1123456789ab", "deploy/values.yaml", 7, "OTEL_EXPORTER_OTLP_HEADERS", "The header authorization is literal.",
				review.Detail{Column: 12, EndLine: 7, EndColumn: 40, Code: "  value: ***", Mark: 9, MarkEnd: 12}),
			finding(sampleChecks[2], "otel-2123456789ab", hostileName, 1, hostileName, "The instrument "+hostileName+" has no unit.",
				review.Detail{Column: 1, EndLine: 1, EndColumn: 9, Code: hostileName, Mark: 0, MarkEnd: len(hostileName)}),
		},
		Files:  review.Files{Read: 1200, Parsed: 40, Skipped: 4, SkippedByReason: map[string]int{"vendored": 3, "binary": 1}},
		Errors: []review.Error{{File: "", Message: "more than 10000 findings: the others are not reported"}, {File: hostileName, Message: "cannot parse the file: " + hostileName}},
		Checks: sampleChecks,
	}
}

func writtenReview(t testing.TB, format string, r *review.Report, opt Options) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, WriteReview(&b, format, r, opt))
	return b.String()
}

func TestReviewGolden(t *testing.T) {
	opt := Options{Version: "1.2.3"}
	for name, c := range map[string]struct {
		format string
		report *review.Report
		opt    Options
	}{
		"review.txt":       {"text", sampleReview(), opt},
		"review-color.txt": {"text", sampleReview(), Options{Color: true, Width: 100}},
		"review.json":      {"json", sampleReview(), opt},
		"review.md":        {"markdown", sampleReview(), opt},
		"review.junit.xml": {"junit", sampleReview(), opt},
		"review.sarif":     {"sarif", sampleReview(), Options{Version: "1.2.3", Base: "services/shop"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := writtenReview(t, c.format, c.report, c.opt)
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

func TestReviewIsSafe(t *testing.T) {
	for _, format := range Formats() {
		text := writtenReview(t, format, sampleReview(), Options{})
		for _, r := range text {
			require.False(t, safetext.Hidden(r) && r != '\n' && r != '\t', "%s: %U in %s", format, r, text)
		}
		if format == "markdown" {
			require.NotContains(t, text, "<img")
		}
	}
}

// TestTextHasNoCommands checks that the runner of a CI job finds no command in the text of a report.
func TestTextHasNoCommands(t *testing.T) {
	const command = "::set-output name=deploy::yes ##vso[task.setvariable]x ##[error]y"
	r := sampleReview()
	r.Findings[0].Locations[0].File, r.Findings[0].Summary, r.Findings[0].Detail.Code = command, strings.Repeat("words of a length ", 20)+command, command
	require.NotRegexp(t, `(?m)^\s*::|##(vso)?\[`, writtenReview(t, "text", r, Options{}))
	var b bytes.Buffer
	require.NoError(t, Table(&b, []string{"name"}, [][]string{{command}}))
	require.NotRegexp(t, `(?m)^\s*::|##(vso)?\[`, b.String())
}

func TestReviewDoesNotModifyReport(t *testing.T) {
	for _, format := range Formats() {
		r := sampleReview()
		writtenReview(t, format, r, Options{})
		require.Equal(t, sampleReview(), r, format)
	}
	require.ErrorContains(t, WriteReview(&bytes.Buffer{}, "html", sampleReview(), Options{}), `"html"`)
}

// TestReviewJSONIsTheContract: the fields of a finding without those of the server.
func TestReviewJSONIsTheContract(t *testing.T) {
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(writtenReview(t, "json", sampleReview(), Options{})), &got))
	keys := func(v any) []string {
		var keys []string
		for k := range v.(map[string]any) {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		return keys
	}
	require.Equal(t, []string{"errors", "files", "findings", "instrumentation"}, keys(got))
	require.Equal(t, []string{"detected_sdks", "instrumentation_types", "languages", "otel_present", "services", "signals", "summary_text"}, keys(got["instrumentation"]))
	require.Equal(t, []string{"category", "check", "display_title", "finding_id", "fix", "fixable", "locations", "rules", "severity", "status", "summary", "title", "why"}, keys(got["findings"].([]any)[0]))
	require.Equal(t, []string{"description", "file", "line"}, keys(got["findings"].([]any)[0].(map[string]any)["locations"].([]any)[0]))
	require.Equal(t, []string{"file", "message"}, keys(got["errors"].([]any)[0]))
	require.JSONEq(t, `{"read": 1200, "parsed": 40, "skipped": 4, "skipped_by_reason": {"vendored": 3, "binary": 1}}`, string(mustJSON(t, got["files"])))
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

func TestReviewJUnit(t *testing.T) {
	var got readJUnit
	require.NoError(t, xml.Unmarshal([]byte(writtenReview(t, "junit", sampleReview(), Options{})), &got))
	require.Equal(t, 4, got.Tests)
	require.Equal(t, 4, got.Failures)
	r := sampleReview()
	r.Findings = r.Findings[:1]
	require.NoError(t, xml.Unmarshal([]byte(writtenReview(t, "junit", r, Options{})), &got))
	require.Equal(t, 1, got.Failures)
	require.Equal(t, 3, got.Tests, "a check without a finding passes")
}

// TestSARIFIsValid validates reports with the schema of SARIF.
func TestSARIFIsValid(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("testdata/sarif-schema-2.1.0.json")
	require.NoError(t, err)
	for name, text := range map[string]string{
		"score":        written(t, "sarif", sample(), Options{Version: "1.2.3", Inputs: []string{"a b.jsonl"}}),
		"review":       writtenReview(t, "sarif", sampleReview(), Options{Version: "1.2.3"}),
		"empty review": writtenReview(t, "sarif", &review.Report{}, Options{}),
		"without details": func() string {
			r := sampleReview()
			r.Findings[0].Detail = nil
			return writtenReview(t, "sarif", r, Options{})
		}(),
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err, name)
		require.NoError(t, schema.Validate(v), name)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"version": "2.1.0", "runs": [{}]}`))
	require.NoError(t, err)
	require.Error(t, schema.Validate(v))
}

// FuzzReview checks that text of a repository cannot control a terminal or change the structure of a report.
func FuzzReview(f *testing.F) {
	f.Add(hostileName, "code()", 0, 4)
	f.Add("a.go", "\ttab\t漢字", 2, 5)
	f.Add("", "", -1, 99)
	f.Fuzz(func(t *testing.T, name, line string, mark, end int) {
		r := sampleReview()
		r.Findings[0].Locations[0].File, r.Findings[0].DisplayTitle, r.Findings[0].Summary = name, name, line
		d := r.Findings[0].Detail
		d.Code, d.Mark, d.MarkEnd = line, mark, end
		for _, format := range Formats() {
			text := writtenReview(t, format, r, Options{})
			for _, c := range text {
				require.False(t, safetext.Hidden(c) && c != '\n' && c != '\t', "%s: %U", format, c)
			}
		}
	})
}
