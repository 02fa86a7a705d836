// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"text/template"

	"assay"
	"assay/internal/rules/catalog"
	"assay/internal/safetext"
)

// PromptVersion is the version of the prompt. A new one makes every summary
// anew; the template's file is named after it.
const PromptVersion = 1

//go:embed prompts/v1.md
var promptText string

// promptTemplate is a part of the binary: one that cannot be parsed is a mistake
// of the source tree, which any test shows.
var promptTemplate = template.Must(template.New("v1.md").Option("missingkey=error").Parse(promptText))

// Prompt is what a model is asked.
type Prompt struct {
	// Rules is what this program says itself: what to do, and the texts of the
	// insight's type. Nothing in it comes from telemetry.
	Rules string
	// Document is a JSON object: the service and the evidence, as far as they can
	// be shown.
	Document string
}

// evidence returns the hash of everything that the prompt shows.
func (p *Prompt) evidence() [sha256.Size]byte {
	h := sha256.New()
	for _, part := range []string{p.Rules, p.Document} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// document is the JSON object that telemetry becomes.
type document struct {
	Service  serviceDocument `json:"service"`
	Evidence map[string]any  `json:"evidence"`
}

type serviceDocument struct {
	Name        string `json:"name"`
	Namespace   string `json:"namespace,omitempty"`
	Environment string `json:"environment,omitempty"`
	Version     string `json:"version,omitempty"`
}

// newPrompt returns the prompt for an insight of a type. The same insight gives
// the same prompt.
func newPrompt(i *assay.Insight, r catalog.Rule) (*Prompt, error) {
	var rules bytes.Buffer
	if err := promptTemplate.Execute(&rules, r.Info()); err != nil {
		return nil, fmt.Errorf("summary: write the prompt: %w", err)
	}
	// Indented, and with <, > and & escaped, which is the default of the package:
	// no string can look like the end of the document. Nor does one say to the model
	// what people do not see.
	d, err := json.MarshalIndent(document{
		Service: serviceDocument{
			Name:        part("service.name", i.Service.Name),
			Namespace:   part("service.namespace", i.Service.Namespace),
			Environment: part("deployment.environment.name", i.Service.Environment),
			Version:     versionPart("service.version", i.Service.Version),
		},
		Evidence: evidenceOf(i.Attributes),
	}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("summary: write the evidence: %w", err)
	}
	return &Prompt{Rules: rules.String(), Document: string(safetext.JSON(d))}, nil
}
