// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/treesitter"
	"assay/internal/rules/catalog"
)

// snippets returns the code of all remediations in a language, by insight type.
func snippets(language string) map[string]string {
	all := make(map[string]string)
	for _, r := range catalog.All() {
		for i, m := range block.FindAllStringSubmatch(r.Info().Remediation, -1) {
			if m[1] == language {
				all[fmt.Sprint(r.Info().Name, i)] = m[2]
			}
		}
	}
	return all
}

// TestGoSnippets compiles all Go code with the OpenTelemetry modules of this module.
func TestGoSnippets(t *testing.T) {
	const preamble = `package snippets

import (
	"context"
	"database/sql"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// What the code refers to.
var (
	ctx context.Context
	tracer trace.Tracer
	span trace.Span
	meter metric.Meter
	reader sdkmetric.Reader
	tracerProvider *sdktrace.TracerProvider
	logger log.Logger
	r *http.Request
	mux http.Handler
	db *sql.DB
	start time.Time
	url, host, env, email string
	code int
	user struct{ ID, Email string }
	items []int
	keys []string
	price func(context.Context, int)
	rdb interface{ MGet(context.Context, ...string) interface{ Result() ([]any, error) } }
	otelhttp struct {
		NewHandler func(http.Handler, string, ...int) http.Handler
		WithPublicEndpointFn func(func(*http.Request) bool) int
	}
)
`
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	dir := t.TempDir()
	here, err := os.Getwd()
	require.NoError(t, err)
	add := func(name, source string) {
		path := filepath.Join(dir, name+".go")
		require.NoError(t, os.WriteFile(path, []byte(source), 0o600))
		overlay.Replace[filepath.Join(here, "snippets", name+".go")] = path
	}
	add("preamble", preamble)
	all := snippets("go")
	require.NotEmpty(t, all)
	for name, code := range all {
		add(name, goFile(t, name, code))
	}
	path := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", path, "./snippets").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// packages are the packages that the code names, by the name.
var packages = map[string]string{
	"attribute": "go.opentelemetry.io/otel/attribute", "context": "context", "http": "net/http", "log": "go.opentelemetry.io/otel/log",
	"metric": "go.opentelemetry.io/otel/sdk/metric", "os": "os", "resource": "go.opentelemetry.io/otel/sdk/resource", "slog": "log/slog",
	"time": "time", "uuid": "github.com/google/uuid",
}

// goFile returns a file with declarations of the code, and its statements in a function.
func goFile(t *testing.T, name, code string) string {
	var top, body []string
	for line := range strings.Lines(code) {
		if strings.HasPrefix(line, "type ") || strings.HasPrefix(line, "func ") {
			top = append(top, line)
		} else {
			body = append(body, line)
		}
	}
	var imports strings.Builder
	code = regexp.MustCompile(`//.*`).ReplaceAllString(code, "")
	for used, path := range packages {
		if used == "metric" && regexp.MustCompile(`metric\.With(Unit|Attributes|Explicit)`).MatchString(code) {
			path = "go.opentelemetry.io/otel/metric"
		}
		if regexp.MustCompile(`\b` + used + `\.[A-Z]`).MatchString(code) {
			fmt.Fprintf(&imports, "import %s %q\n", used, path)
		}
	}
	source := "package snippets\n" + imports.String() + strings.Join(top, "\n") + "\nfunc " + name + "() {\n" + strings.Join(body, "")
	file, err := parser.ParseFile(token.NewFileSet(), name, source+"}\n", parser.ParseComments)
	require.NoError(t, err, "%s", code)
	declared := make(map[string]bool)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == name {
			for _, s := range f.Body.List {
				if a, ok := s.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
					for _, e := range a.Lhs {
						declared[e.(*ast.Ident).Name] = true
					}
				}
			}
		}
	}
	for variable := range declared {
		source += "_ = " + variable + "\n"
	}
	formatted, err := format.Source([]byte(source + "}\n"))
	require.NoError(t, err)
	return string(formatted)
}

// TestSnippetsParse parses the code in the languages that a review reads, without their
// toolchains.
func TestSnippetsParse(t *testing.T) {
	p, err := treesitter.New(t.Context(), "")
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close(t.Context())) }()
	for language, grammar := range map[string]treesitter.Language{"java": treesitter.Java, "js": treesitter.JavaScript, "python": treesitter.Python} {
		all := snippets(language)
		require.NotEmpty(t, all)
		for name, code := range all {
			tree, err := p.Parse(t.Context(), grammar, []byte(code))
			require.NoError(t, err)
			for _, n := range tree.Nodes {
				require.False(t, n.Error || n.Missing, "%s: %s", name, code)
			}
		}
	}
}
