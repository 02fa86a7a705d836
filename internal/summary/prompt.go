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

// PromptVersion is the version of the prompt and part of the name of the template's
// file. A new version regenerates every summary.
const PromptVersion = 1

//go:embed prompts/v1.md
var promptText string

// promptTemplate is embedded, so a parse error is a programming error that every test
// finds.
var promptTemplate = template.Must(template.New("v1.md").Option("missingkey=error").Parse(promptText))

// Prompt is the input of a model.
type Prompt struct {
	// Rules has the instructions of this program and the texts of the insight's type.
	// Nothing in it comes from telemetry.
	Rules string
	// Document is a JSON object with the parts of the service and the evidence that may
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

// document is the content of Prompt.Document.
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

// newPrompt returns the prompt for an insight of a type. It is deterministic.
func newPrompt(i *assay.Insight, r catalog.Rule) (*Prompt, error) {
	var rules bytes.Buffer
	if err := promptTemplate.Execute(&rules, r.Info()); err != nil {
		return nil, fmt.Errorf("summary: write the prompt: %w", err)
	}
	// encoding/json escapes <, > and &, so no string can look like the end of the
	// document. No string contains invisible text either.
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
