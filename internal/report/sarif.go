// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path/filepath"
	"strings"

	"assay"
	"assay/internal/rules/catalog"
)

// The parts of SARIF 2.1.0 that a report uses.
// Source: OASIS, Static Analysis Results Interchange Format Version 2.1.0.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool            `json:"tool"`
		Invocations []sarifInvocation    `json:"invocations,omitempty"`
		Bases       map[string]sarifBase `json:"originalUriBaseIds"`
		ColumnKind  string               `json:"columnKind"`
		Results     []sarifResult        `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		Notifications []sarifNotification `json:"toolExecutionNotifications"`
	}
	sarifNotification struct {
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string          `json:"id"`
		Name                 string          `json:"name"`
		ShortDescription     sarifMessage    `json:"shortDescription"`
		FullDescription      sarifMessage    `json:"fullDescription"`
		HelpURI              string          `json:"helpUri,omitempty"`
		Help                 sarifMessage    `json:"help"`
		DefaultConfiguration sarifConfig     `json:"defaultConfiguration"`
		Properties           sarifProperties `json:"properties"`
	}
	sarifConfig struct {
		Level string  `json:"level"`
		Rank  float64 `json:"rank,omitempty"`
	}
	sarifProperties struct {
		Impact   assay.Impact `json:"impact,omitempty"`
		Category string       `json:"category,omitempty"`
		Tags     []string     `json:"tags"`
	}
	sarifMessage struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown,omitempty"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Kind         string            `json:"kind"`
		Level        string            `json:"level"`
		Message      sarifMessage      `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
		Properties   map[string]any    `json:"properties"`
	}
	sarifLocation struct {
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI    string `json:"uri"`
		BaseID string `json:"uriBaseId,omitempty"` // of a relative URI
	}
	sarifBase struct {
		Description sarifMessage `json:"description"`
	}
	sarifRegion struct {
		StartLine   int           `json:"startLine"`
		StartColumn int           `json:"startColumn,omitempty"`
		EndLine     int           `json:"endLine,omitempty"`
		EndColumn   int           `json:"endColumn,omitempty"`
		Snippet     *sarifMessage `json:"snippet,omitempty"`
	}
	sarifLogical struct {
		Name               string `json:"name"`
		FullyQualifiedName string `json:"fullyQualifiedName"`
		Kind               string `json:"kind"`
	}
)

const sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

// sourceRoot is the base of relative URIs. Its own URI is not in a report, because it differs between machines.
const sourceRoot = "SRCROOT"

func sarifBases() map[string]sarifBase {
	return map[string]sarifBase{sourceRoot: {Description: sarifMessage{Text: "The top of the Git work tree. Without one, the directory of the review or the working directory."}}}
}

// fingerprint is the name and version of the fingerprints of results.
const fingerprint = "serviceInsight/v1"

// sarifLevel returns the SARIF level of an impact. SARIF has three levels for the four impacts.
func sarifLevel(i assay.Impact) string {
	switch i {
	case assay.ImpactCritical, assay.ImpactImportant:
		return "error"
	case assay.ImpactNormal:
		return "warning"
	default:
		return "note"
	}
}

// writeSARIF writes SARIF 2.1.0 with all rules, and a result for each insight of each service. Telemetry has no
// location in source code: the location of a result is the first input file, if there is one, and the service.
func writeSARIF(b *bytes.Buffer, r *Report, opt Options) error {
	driver := sarifDriver{Name: "assay", Version: opt.Version}
	index := make(map[string]int)
	for _, rule := range catalog.All() {
		info := rule.Info()
		index[info.Name] = len(driver.Rules)
		driver.Rules = append(driver.Rules, newSARIFRule(info))
	}
	results := []sarifResult{}
	for i := range r.Services {
		s := &r.Services[i]
		for _, insight := range s.Insights {
			n, known := index[insight.Name]
			if !known {
				n = -1 // no entry in rules, as SARIF defines
			}
			results = append(results, s.sarif(&insight, n, opt.Inputs))
		}
	}
	return encodeJSON(b, sarifLog{
		Schema:  sarifSchema,
		Version: "2.1.0",
		Runs:    []sarifRun{{Tool: sarifTool{Driver: driver}, Bases: sarifBases(), ColumnKind: "utf16CodeUnits", Results: results}},
	})
}

// sarifID returns the id of a rule or insight type.
func sarifID(info *catalog.Info) string { return cmp.Or(info.ID, info.Name) }

func newSARIFRule(info *catalog.Info) sarifRule {
	help := info.Rationale + "\n\n" + info.Remediation
	return sarifRule{
		ID:                   sarifID(info),
		Name:                 info.Name,
		ShortDescription:     sarifMessage{Text: info.DisplayName},
		FullDescription:      sarifMessage{Text: plain(firstParagraph(info.Description)), Markdown: info.Description},
		HelpURI:              helpLink(info.Remediation),
		Help:                 sarifMessage{Text: help, Markdown: help},
		DefaultConfiguration: sarifConfig{Level: sarifLevel(info.Impact), Rank: float64(info.Impact.Weight())},
		Properties:           sarifProperties{Impact: info.Impact, Tags: []string{"opentelemetry", string(info.Signal)}},
	}
}

func (s *Service) sarif(i *Insight, ruleIndex int, inputs []string) sarifResult {
	info := i.info()
	text := s.label(labelName) + ": " + i.message(info)
	for _, f := range i.evidence() {
		line := f.String()
		text += " " + strings.ToUpper(line[:1]) + line[1:] + "."
	}
	location := sarifLocation{Logical: []sarifLogical{{
		Name: Printable(s.Name, labelName), FullyQualifiedName: s.label(labelName), Kind: "service",
	}}}
	if len(inputs) > 0 {
		location.Physical = &sarifPhysical{Artifact: newSARIFArtifact(inputs[0]), Region: sarifRegion{StartLine: 1}}
	}
	return sarifResult{
		RuleID: sarifID(info), RuleIndex: ruleIndex, Kind: "fail", Level: sarifLevel(i.Impact),
		Message:      sarifMessage{Text: text},
		Locations:    []sarifLocation{location},
		Fingerprints: map[string]string{fingerprint: s.fingerprint(i)},
		Properties:   map[string]any{"impact": i.Impact, "insight_type": i.Name},
	}
}

// fingerprint identifies an insight of a service across runs, regardless of its evidence.
func (s *Service) fingerprint(i *Insight) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{s.Namespace, s.Name, s.Environment, s.Version, i.Name}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// newSARIFArtifact returns the location of a file. A relative path is relative to sourceRoot.
func newSARIFArtifact(path string) sarifArtifact {
	slashed := filepath.ToSlash(filepath.Clean(path))
	if filepath.IsAbs(path) {
		return sarifArtifact{URI: (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(slashed, "/")}).String()}
	}
	return sarifArtifact{URI: (&url.URL{Path: slashed}).String(), BaseID: sourceRoot}
}
