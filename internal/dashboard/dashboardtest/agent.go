// SPDX-License-Identifier: Apache-2.0

package dashboardtest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"
	"text/template"

	"assay"
)

// Ids of a World's repository and run.
const (
	RepositoryID = "5f0a7a52-1d5c-4f39-9d1d-7f4f6a3a9e01"
	RunID        = "5f0a7a52-1d5c-4f39-9d1d-7f4f6a3a9e02"
	FindingID    = "otel-0123456789ab"
	FixID        = "5f0a7a52-1d5c-4f39-9d1d-7f4f6a3a9e03" // a run
)

//go:embed agent.tmpl
var agentText string

var (
	answers = template.Must(template.New("").Funcs(template.FuncMap{"json": jsonOf}).Parse(agentText))
	names   = strings.NewReplacer(RepositoryID, "{id}", RunID, "{run}", FixID, "{fix}") // of ids in agent.tmpl
	ids     = strings.NewReplacer("{id}", RepositoryID, "{run}", RunID, "{fix}", FixID)
)

// Findings implements dashboard.CodeFinder: one finding is behind the first insight.
func (w *World) Findings(_ context.Context, _ string, f assay.FindingFilter) ([]*assay.CodeFinding, int, error) {
	if len(w.Found) == 0 || f.InsightID != w.Found[0].ID {
		return nil, 0, nil
	}
	body := json.RawMessage(`{"display_title":"Attribute holds personal data","locations":[{"file":"internal/order/place.go","line":42}]}`)
	return []*assay.CodeFinding{{ID: FindingID, RepositoryID: RepositoryID, Body: body}}, 1, nil
}

// Forward implements assay.AgentBackend with one repository, its findings and its runs. Calls records calls that
// change something.
func (w *World) Forward(_ context.Context, c *assay.AgentCall) (*assay.AgentAnswer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.AgentErr != nil && (c.Method != http.MethodGet || assay.ErrorCode(w.AgentErr) == assay.CodeUnavailable) {
		return nil, w.AgentErr
	}
	if c.Method != http.MethodGet {
		w.Calls = append(w.Calls, c.Method+" "+c.Path+" "+string(c.Body))
	}
	answer := answers.Lookup(c.Method + " " + names.Replace(c.Path))
	if answer == nil {
		return nil, assay.Errorf(assay.CodeNotFound, "no such resource")
	}
	var text bytes.Buffer
	err := answer.Execute(&text, w)
	return &assay.AgentAnswer{Data: []byte(ids.Replace(text.String()))}, err
}
