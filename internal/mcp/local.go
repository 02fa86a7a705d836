// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"assay/internal/offline"
	"assay/internal/report"
	"assay/internal/review"
)

// Local provides tools for local files, with the permissions of this process.
type Local struct {
	Cache string // directory for compiled grammars; "" disables the cache
}

type (
	reviewIn struct {
		Path    string   `json:"path" jsonschema:"directory to review"`
		Since   string   `json:"since,omitempty" jsonschema:"git reference; only findings that changes since then introduce"`
		Only    []string `json:"only,omitempty" jsonschema:"checks to run; default all"`
		Disable []string `json:"disable,omitempty" jsonschema:"checks not to run"`
		Limit   int      `json:"limit,omitempty" jsonschema:"maximum number of findings; default 50"`
	}
	scoreIn struct {
		Files []string `json:"files" jsonschema:"files of recorded OTLP: JSON or protobuf, optionally compressed"`
	}
	verifyIn struct {
		Path   string   `json:"path" jsonschema:"directory of a git repository with the change, committed or not"`
		Since  string   `json:"since,omitempty" jsonschema:"git reference of the code before the change; default HEAD"`
		Before []string `json:"telemetry_before,omitempty" jsonschema:"files of OTLP that the code sent before the change"`
		After  []string `json:"telemetry_after,omitempty" jsonschema:"files of OTLP that the code sends after the change"`
	}
)

// maxFindings is the default number of findings in a result.
const maxFindings = 50

// register adds the tools for local files.
func (l *Local) register(s *mcp.Server) {
	add(s, "review_directory", "Review code", "Reviews source code and configuration for mistakes that lead to bad telemetry. The code is not run.", l.review)
	add(s, "score_telemetry", "Score telemetry", "Scores recorded OTLP by the rules, without a server.", l.score)
	add(s, "verify_change", "Verify a change", "Compares code before and after a change by a review, and its recorded telemetry by the rules. "+
		"The verdict is better, same or worse; a change that makes a rule or a check worse should not be made.", l.verify)
}

func (l *Local) review(ctx context.Context, _ http.Header, in reviewIn) (any, error) {
	r, err := review.Run(ctx, review.Options{Root: in.Path, Since: in.Since, Only: in.Only, Disable: in.Disable, Cache: l.Cache})
	if err != nil {
		return nil, err
	}
	total := len(r.Findings)
	if in.Limit <= 0 {
		in.Limit = maxFindings
	}
	r.Findings = r.Findings[:min(total, in.Limit)]
	var text bytes.Buffer
	if err := report.WriteReview(&text, "json", r, report.Options{}); err != nil {
		return nil, err
	}
	return map[string]any{"total": total, "report": json.RawMessage(text.Bytes())}, nil
}

func (l *Local) score(ctx context.Context, _ http.Header, in scoreIn) (any, error) {
	r, err := scored(ctx, in.Files)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := report.Write(&text, "json", r, report.Options{}); err != nil {
		return nil, err
	}
	return json.RawMessage(text.Bytes()), nil
}

func scored(ctx context.Context, files []string) (*report.Report, error) {
	if len(files) == 0 {
		return nil, errors.New("files is empty")
	}
	var inputs []offline.Input
	for _, name := range files {
		inputs = append(inputs, offline.Input{Name: name, Open: func() (io.ReadCloser, error) { return openRegular(name) }})
	}
	return offline.Score(ctx, offline.Config{Inputs: inputs})
}

// openRegular opens a regular file. Reading other files, such as named pipes and terminals, can block forever, even
// after the context ends.
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

type (
	verdict struct {
		Verdict    string              `json:"verdict"` // better, same, worse
		Introduced []codePlace         `json:"introduced"`
		Resolved   []codePlace         `json:"resolved"`
		Rules      []report.RuleStates `json:"rules"`  // whose state differs
		Scores     []report.Scores     `json:"scores"` // of the telemetry
	}
	codePlace struct {
		Check   string `json:"check"`
		File    string `json:"file"`
		Line    int    `json:"line"`
		Summary string `json:"summary"`
	}
)

// verify compares the code and its telemetry before and after a change.
func (l *Local) verify(ctx context.Context, _ http.Header, in verifyIn) (any, error) {
	if (len(in.Before) == 0) != (len(in.After) == 0) {
		return nil, errors.New("telemetry_before and telemetry_after are needed together")
	}
	in.Since = cmp.Or(in.Since, "HEAD")
	temporary, err := os.MkdirTemp("", "assay-mcp-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temporary)
	before := filepath.Join(temporary, "before")
	if err := review.Export(ctx, in.Path, in.Since, before, filepath.Join(temporary, "git")); err != nil {
		return nil, err
	}
	var reports [2]*review.Report
	for i, dir := range []string{before, in.Path} {
		if reports[i], err = review.Run(ctx, review.Options{Root: dir, Cache: l.Cache}); err != nil {
			return nil, err
		}
	}
	v := &verdict{
		Verdict: "same", Introduced: missing(reports[1], reports[0]), Resolved: missing(reports[0], reports[1]),
		Rules: []report.RuleStates{}, Scores: []report.Scores{},
	}
	worse, better := len(v.Introduced) > 0, len(v.Resolved) > 0
	if len(in.Before) > 0 {
		was, err := scored(ctx, in.Before)
		if err != nil {
			return nil, err
		}
		is, err := scored(ctx, in.After)
		if err != nil {
			return nil, err
		}
		rules, scores := report.Compare(was, is)
		v.Scores = append(v.Scores, scores...)
		for _, r := range rules {
			if r.Before == r.After {
				continue
			}
			v.Rules = append(v.Rules, r)
			worse = worse || r.After == report.Failed
			better = better || r.Before == report.Failed && r.After == report.Passed
		}
	}
	switch {
	case worse:
		v.Verdict = "worse"
	case better:
		v.Verdict = "better"
	}
	return v, nil
}

// missing returns the findings of a report that another report does not have. The id of a finding depends on equal
// findings before it in the file, so missing compares the number of findings for each check and file.
func missing(in, from *review.Report) []codePlace {
	type key struct{ check, file string }
	count := map[key]int{}
	for _, f := range from.Findings {
		count[key{f.Check, f.Locations[0].File}]++
	}
	all := []codePlace{}
	known := map[string]bool{}
	for _, f := range from.Findings {
		known[f.ID] = true
	}
	// Match the findings with a known id first, since findings with the same id are equal.
	places := slices.Clone(in.Findings)
	slices.SortStableFunc(places, func(a, b review.Finding) int {
		switch {
		case known[a.ID] == known[b.ID]:
			return 0
		case known[a.ID]:
			return -1
		}
		return 1
	})
	for _, f := range places {
		k := key{f.Check, f.Locations[0].File}
		if count[k]--; count[k] >= 0 {
			continue
		}
		all = append(all, codePlace{f.Check, k.file, f.Locations[0].Line, f.Summary})
	}
	return all
}
