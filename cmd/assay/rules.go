// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"

	"assay/internal/report"
	"assay/internal/rules/catalog"
)

type rulesCmd struct {
	ID string `arg:"" optional:"" help:"Rule id, such as SPA-002, or insight type, such as orphan_spans."`
}

// Run prints the table of rules with the decisions that concern all of them, or the documentation of one rule.
func (c *rulesCmd) Run(e *environment) error {
	opt := e.textOptions(e.stdout)
	var b bytes.Buffer
	if c.ID == "" {
		if err := allRules(&b, opt); err != nil {
			return err
		}
	} else {
		r, ok := findRule(c.ID)
		if !ok {
			return usageError{fmt.Errorf("there is no rule or insight type %q; `assay rules` lists them", c.ID)}
		}
		if err := report.Markdown(&b, ruleText(r), opt); err != nil {
			return err
		}
	}
	_, err := e.stdout.Write(b.Bytes())
	return err
}

func findRule(name string) (catalog.Rule, bool) {
	if r, ok := catalog.ByID(strings.ToUpper(name)); ok {
		return r, true
	}
	return catalog.ByInsightType(strings.ToLower(name))
}

func allRules(b *bytes.Buffer, opt report.Options) error {
	var rows [][]string
	for _, r := range catalog.All() {
		i := r.Info()
		rows = append(rows, []string{orDash(i.ID), string(i.Impact), i.Name, i.DisplayName})
	}
	if err := report.Table(b, []string{"RULE", "IMPACT", "INSIGHT TYPE", "WHAT IS WRONG"}, rows); err != nil {
		return err
	}
	b.WriteByte('\n')
	var text strings.Builder
	text.WriteString("Each rule has its weight: Critical 40, Important 30, Normal 20, Low 10. " +
		"A score is 100 times the weights of the rules passed over those of the rules evaluated. " +
		"Insight types without a rule never change a score.\n\n## Choices\n\nWhere the specification is open, for all rules:\n\n")
	writeItems(&text, catalog.GeneralChoices())
	for _, r := range catalog.All() {
		if i := r.Info(); len(i.Choices) > 0 {
			fmt.Fprintf(&text, "\n### %s\n\n", title(r))
			writeItems(&text, i.Choices)
		}
	}
	text.WriteString("\n`assay rules ID` shows a rule with its criterion and how to fix what it finds.\n")
	return report.Markdown(b, text.String(), opt)
}

func writeItems(b *strings.Builder, items []string) {
	for _, item := range items {
		fmt.Fprintf(b, "- %s\n", item)
	}
}

func title(r catalog.Rule) string {
	i := r.Info()
	if i.ID == "" {
		return i.DisplayName + " (" + i.Name + ")"
	}
	return i.ID + " " + i.DisplayName
}

// ruleText returns the documentation of a rule as Markdown.
func ruleText(r catalog.Rule) string {
	i := r.Info()
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", title(r))
	score := fmt.Sprintf("weight %d", i.Impact.Weight())
	if i.ID == "" {
		score = "never changes a score"
	}
	fmt.Fprintf(&b, "- Insight type: %s\n- Impact: %s, %s\n- Signal: %s\n- Target: %s\n- Applies when: %s\n- Fails when: %s\n\n",
		i.Name, i.Impact, score, i.Signal, i.Target, i.Applies, i.Criterion)
	fmt.Fprintf(&b, "%s\n\n## Why it matters\n\n%s\n\n## How to fix it\n\n%s\n", i.Description, i.Rationale, i.Remediation)
	if len(i.Choices) > 0 {
		b.WriteString("\n## Choices\n\n")
		writeItems(&b, i.Choices)
	}
	return b.String()
}
