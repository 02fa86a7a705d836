// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"assay/internal/review"
	"assay/internal/review/migrate"
)

// shape holds the properties of a span that a migration must preserve.
type shape struct {
	Name       string
	Kind       string
	Parent     string // name of the parent span
	Status     string
	Attributes map[string]any
	Events     []string
}

// sentBefore is a span that a program sent with its old library before the migration.
// testdata/migrate/README.md describes how they were recorded.
type sentBefore struct {
	Name   string           `json:"name"`
	Kind   string           `json:"kind"`
	Parent string           `json:"parent"`
	Status string           `json:"status"`
	Tags   map[string]any   `json:"tags"`
	Logs   []map[string]any `json:"logs"`
	Remote map[string]any   `json:"remote"` // the remote endpoint of Zipkin
}

// renamed maps the attributes whose key changes in the migration.
var renamed = map[string]string{
	"http.method": "http.request.method", "http.status_code": "http.response.status_code", "http.url": "url.full",
	"db.type": "db.system.name", "db.statement": "db.query.text", "peer.hostname": "server.address", "http.path": "url.path",
	"serviceName": "service.peer.name", "port": "server.port",
}

// mapped returns the expected shape of the span after the migration.
func (r *sentBefore) mapped(names map[string]string) shape {
	s := shape{Name: names[r.Name], Kind: strings.ToLower(r.Kind), Parent: names[r.Parent], Status: "Unset", Attributes: map[string]any{}}
	if s.Kind == "" {
		s.Kind = "internal"
	}
	switch code, _, _ := strings.Cut(r.Status, " "); code {
	case "":
	case "0":
		s.Status = "Unset"
	default:
		s.Status = "Error"
	}
	for key, value := range r.Tags {
		switch key {
		case "span.kind":
			s.Kind = fmt.Sprint(value)
		case "error":
			if fmt.Sprint(value) != "0" && fmt.Sprint(value) != "false" {
				s.Status = "Error"
			}
		case "type": // Datadog
			if k := map[any]string{"web": "server", "http": "client", "sql": "client"}[value]; k != "" {
				s.Kind = k
			}
		case "resource", "error.message", "error.type":
		default:
			if k := renamed[key]; k != "" {
				key = k
			}
			s.Attributes[key] = value
		}
	}
	for key, value := range r.Remote {
		s.Attributes[renamed[key]] = value
	}
	for _, log := range r.Logs {
		for _, key := range []string{"event", "message", "value"} {
			if name, ok := log[key]; ok {
				if name == "error" {
					name = "exception"
				}
				s.Events = append(s.Events, fmt.Sprint(name))
				break
			}
		}
	}
	if r.Tags["error.message"] != nil {
		s.Events = append(s.Events, "exception")
	}
	return s
}

// spanSink receives OTLP spans.
type spanSink struct {
	*httptest.Server
	mu    sync.Mutex
	spans []ptrace.Span
}

func startSink(t *testing.T) *spanSink {
	t.Helper()
	s := &spanSink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		request := ptraceotlp.NewExportRequest()
		if err == nil && strings.Contains(r.Header.Get("Content-Type"), "json") {
			err = request.UnmarshalJSON(body)
		} else if err == nil {
			err = request.UnmarshalProto(body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, rs := range request.Traces().ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					s.spans = append(s.spans, span)
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// shapes returns the shapes of the received spans.
func (s *spanSink) shapes() []shape {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := map[pcommon.SpanID]string{}
	for _, span := range s.spans {
		names[span.SpanID()] = span.Name()
	}
	var out []shape
	for _, span := range s.spans {
		o := shape{
			Name: span.Name(), Kind: strings.ToLower(span.Kind().String()), Parent: names[span.ParentSpanID()],
			Status: span.Status().Code().String(), Attributes: span.Attributes().AsRaw(),
		}
		if o.Status == "Ok" {
			o.Status = "Unset"
		}
		for _, e := range span.Events().All() {
			o.Events = append(o.Events, e.Name())
		}
		out = append(out, o)
	}
	return out
}

// migrateCopy migrates a copy of a program. It requires that a second migration changes nothing.
func migrateCopy(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "migrate", name))))
	require.NoError(t, os.Remove(filepath.Join(dir, "before.json")))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	parser, err := review.NewParser(t.Context(), "")
	require.NoError(t, err)
	defer parser.Close(context.WithoutCancel(t.Context()))
	for run := range 2 {
		var files []string
		require.NoError(t, fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				files = append(files, path)
			}
			return err
		}))
		slices.Sort(files)
		patch, err := migrate.Make(t.Context(), root, parser, files)
		require.NoError(t, err)
		if run == 0 {
			require.NotEmpty(t, patch.Files, "%+v", patch.Steps)
			require.NoError(t, patch.Apply(root))
		} else {
			require.Empty(t, patch.Files, "a second migration changes nothing")
		}
	}
	return dir
}

// TestMigrate migrates a program of each library and compares the spans that it sends with the spans sent
// before.
func TestMigrate(t *testing.T) {
	t.Parallel()
	packages, err := filepath.Abs(filepath.Join("..", "bin", "tools", "otel-node"))
	require.NoError(t, err)
	programs, err := filepath.Glob(filepath.Join("testdata", "migrate", "*", "before.json"))
	require.NoError(t, err)
	require.NotEmpty(t, programs)
	for _, path := range programs {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := migrateCopy(t, name)
			sink := startSink(t)
			run := func(program string, args ...string) {
				cmd := exec.CommandContext(t.Context(), program, args...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.URL, anyModule(), "NODE_PATH="+filepath.Join(packages, "node_modules"))
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s %v: %s", program, args, out)
			}
			if strings.HasPrefix(name, "go-") {
				sum, err := os.ReadFile(filepath.Join("..", "go.sum")) // the versions of this repository
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644))
				run("go", "vet", "./...")
				run("go", "run", ".")
			} else {
				run("node", "main.js")
			}
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			var before []sentBefore
			require.NoError(t, json.Unmarshal(text, &before))
			names := map[string]string{}
			for _, r := range before {
				names[r.Name] = r.Name
				if resource, ok := r.Tags["resource"].(string); ok {
					names[r.Name] = resource
				}
			}
			var want, got []string
			for _, r := range before {
				want = append(want, describe(t, r.mapped(names)))
			}
			for _, s := range sink.shapes() {
				if operation, ok := s.Attributes["operation.name"].(string); ok {
					require.Equal(t, s.Name, names[operation])
					delete(s.Attributes, "operation.name")
				}
				got = append(got, describe(t, s))
			}
			slices.Sort(want)
			slices.Sort(got)
			require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
		})
	}
}

func describe(t *testing.T, s shape) string {
	text, err := json.Marshal(s)
	require.NoError(t, err)
	return string(text)
}
