// SPDX-License-Identifier: Apache-2.0

package instrument_test

import (
	"bytes"
	"fmt"
	"go/format"
	"io"
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
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"golang.org/x/mod/modfile"

	"assay/internal/review/instrument"
)

// goPrograms are the directories in testdata with modules in Go.
var goPrograms = []string{"go-consumers", "go-data", "go-clients", "go-chi", "go-mux", "go-echo", "go-fiber", "go-connect"}

// TestGoBoundaries compares the patches for modules in Go, and makes them a second time, which changes nothing.
func TestGoBoundaries(t *testing.T) {
	parser := newParser(t)
	for _, name := range goPrograms {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
			p, root, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			var got strings.Builder
			for _, s := range p.Steps {
				fmt.Fprintf(&got, "%s %s:%d %s\n", map[bool]string{false: "did ", true: "left"}[s.Open], s.File, s.Line, s.Text)
			}
			got.WriteString("\n")
			require.NoError(t, p.Diff(&got))
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String())

			require.NoError(t, p.Apply(root))
			for _, f := range p.Files {
				if filepath.Ext(f.Path) == ".go" {
					formatted, err := format.Source(f.After)
					require.NoError(t, err)
					require.Equal(t, string(formatted), string(f.After))
				}
			}
			again, _, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			require.Empty(t, again.Files)
		})
	}
}

// goStubs are the modules in testdata/go-stubs that stand for those of a program.
var goStubs = map[string]string{
	"kafka": "github.com/segmentio/kafka-go", "sarama": "github.com/IBM/sarama", "amqp": "github.com/rabbitmq/amqp091-go", "nats": "github.com/nats-io/nats.go",
	"aws": "github.com/aws/aws-sdk-go-v2", "sqs": "github.com/aws/aws-sdk-go-v2/service/sqs", "cron": "github.com/robfig/cron/v3",
}

// TestGoConsumersRun runs a program with consumers before and after the change. Its output is the same, and its telemetry is
// that of the conventions.
func TestGoConsumersRun(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "go-consumers"))))
	run, err := os.ReadFile("testdata/go-stubs/run.go")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "orders", "run.go"), run, 0o600))
	manifest, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)

	received := &received{}
	server := httptest.NewServer(received)
	defer server.Close()
	goModuleFiles(t, dir)
	before := goRun(t, dir, server.URL)
	require.Empty(t, received.spans)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), manifest, 0o600))
	p, root, err := makePatch(t, newParser(t), dir, instrument.General)
	require.NoError(t, err)
	require.NoError(t, p.Apply(root))
	goModuleFiles(t, dir)
	require.Equal(t, before, goRun(t, dir, server.URL))
	slices.Sort(received.spans)
	slices.Sort(received.metrics)

	got := strings.Join(received.spans, "\n") + "\n\n" + strings.Join(received.metrics, "\n") + "\n"
	const golden = "testdata/go-consumers.telemetry"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// goModuleFiles gives a module the requirements of this one, so that it needs no network, and the stubs.
func goModuleFiles(t *testing.T, dir string) {
	text, err := os.ReadFile("../../../go.mod")
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	require.NoError(t, mod.AddModuleStmt("example.com/orders"))
	stubs, err := filepath.Abs("testdata/go-stubs")
	require.NoError(t, err)
	for name, module := range goStubs {
		version := "v0.0.0"
		if strings.HasSuffix(module, "/v3") {
			version = "v3.0.0"
		}
		require.NoError(t, mod.AddRequire(module, version))
		require.NoError(t, mod.AddReplace(module, "", filepath.Join(stubs, name), ""))
	}
	text, err = mod.Format()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o600))
	sums, err := os.ReadFile("../../../go.sum")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600))
}

// goRun runs a program and returns what it writes.
func goRun(t *testing.T, dir, endpoint string) string {
	var out, failed bytes.Buffer
	program := exec.CommandContext(t.Context(), "go", "run", ".")
	program.Dir, program.Stdout, program.Stderr = dir, &out, &failed
	program.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off", "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_SERVICE_NAME=orders")
	require.NoError(t, program.Run(), "%s", &failed)
	require.Empty(t, failed.String())
	return out.String()
}

// received is a receiver of OTLP that keeps the spans, and the metrics of the program's own scopes.
type received struct {
	mu             sync.Mutex
	spans, metrics []string
}

func (r *received) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(request.Body)
	if err == nil && request.URL.Path == "/v1/traces" {
		err = r.traces(body)
	} else if err == nil {
		err = r.points(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (r *received) traces(body []byte) error {
	traces := ptraceotlp.NewExportRequest()
	if err := traces.UnmarshalProto(body); err != nil {
		return err
	}
	for _, resource := range traces.Traces().ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				r.spans = append(r.spans, fmt.Sprintf("%s | %s | parent %s | %s%s | events %d | %s", span.Name(), span.Kind(), span.ParentSpanID(), attributes(span.Attributes()), status(span), span.Events().Len(), scope.Scope().Name()))
			}
		}
	}
	return nil
}

func (r *received) points(body []byte) error {
	metrics := pmetricotlp.NewExportRequest()
	if err := metrics.UnmarshalProto(body); err != nil {
		return err
	}
	for _, resource := range metrics.Metrics().ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			if !strings.HasPrefix(scope.Scope().Name(), "example.com/") {
				continue
			}
			for _, m := range scope.Metrics().All() {
				for _, p := range m.Histogram().DataPoints().All() {
					r.metrics = append(r.metrics, fmt.Sprintf("%s | %s | %v | count %d | %s", m.Name(), m.Unit(), p.ExplicitBounds().AsRaw(), p.Count(), attributes(p.Attributes())))
				}
			}
		}
	}
	return nil
}

func attributes(m pcommon.Map) string {
	var all []string
	for key, value := range m.All() {
		all = append(all, key+"="+value.AsString())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func status(span ptrace.Span) string {
	if span.Status().Code() == ptrace.StatusCodeUnset {
		return ""
	}
	return " | " + span.Status().Code().String() + " " + span.Status().Message()
}
