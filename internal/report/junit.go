// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"assay/internal/rules/catalog"
	"assay/internal/rules/remedy"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Timestamp  string          `xml:"timestamp,attr,omitempty"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	SystemOut  string          `xml:"system-out,omitempty"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	File      string        `xml:"file,attr,omitempty"`
	Failure   *junitFailure `xml:"failure"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",cdata"`
}

// writeJUnit writes JUnit XML with a suite for each service and a case for each evaluated rule. Insights without a
// rule are written as output of the suite.
func writeJUnit(w io.Writer, r *Report) error {
	out := junitSuites{Name: "Instrumentation Score", Suites: make([]junitSuite, len(r.Services))}
	for i := range r.Services {
		out.Suites[i] = r.Services[i].junit(r.Window.End.UTC().Format("2006-01-02T15:04:05"))
		out.Tests += out.Suites[i].Tests
		out.Failures += out.Suites[i].Failures
	}
	return encodeXML(w, out)
}

func encodeXML(w io.Writer, out junitSuites) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("encode JUnit XML: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (s *Service) junit(timestamp string) junitSuite {
	label := s.label(labelName)
	suite := junitSuite{
		Name: label, Timestamp: timestamp, Tests: len(s.EvaluatedRuleIDs),
		Properties: []junitProperty{{Name: "score", Value: s.scoreText()}, {Name: "band", Value: orDash(s.Category)}},
	}
	insights := make(map[string]*Insight, len(s.Insights))
	var unscored []string
	for i := range s.Insights {
		insight := &s.Insights[i]
		if insight.RuleID == "" {
			unscored = append(unscored, insight.message(insight.info()))
			continue
		}
		insights[insight.RuleID] = insight
	}
	failed := make(map[string]bool, len(s.FailedRuleIDs))
	for _, id := range s.FailedRuleIDs {
		failed[id] = true
	}
	for _, id := range s.EvaluatedRuleIDs {
		c := junitCase{Name: id, ClassName: label}
		info := &catalog.Info{ID: id}
		if r, ok := catalog.ByID(id); ok {
			info = r.Info()
			c.Name = title(info)
		}
		if failed[id] {
			suite.Failures++
			i := insights[id]
			if i == nil {
				i = &Insight{Name: info.Name, RuleID: id, Impact: info.Impact}
			}
			c.Failure = &junitFailure{Message: i.message(info), Type: string(info.Impact), Text: i.explanation(info)}
		}
		suite.Cases = append(suite.Cases, c)
	}
	suite.SystemOut = strings.Join(unscored, "\n")
	return suite
}

// message returns the problem in one line.
func (i *Insight) message(info *catalog.Info) string {
	m := plain(firstParagraph(info.Description))
	if m == "" {
		m = Printable(info.DisplayName, labelName)
	}
	if share := i.share(); share != "" {
		m += " " + share + "."
	}
	return m
}

// explanation returns the evidence and the fix as plain text.
func (i *Insight) explanation(info *catalog.Info) string {
	var b strings.Builder
	for _, f := range i.evidence() {
		fmt.Fprintln(&b, f)
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(remedy.For(info, i.Attributes))
	b.WriteByte('\n')
	return b.String()
}
