// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/migrate"
)

// javaPrograms are the Java projects, with their main class and the declarations of the old library.
var javaPrograms = map[string]struct{ main, library string }{
	"java-brave":              {"com.example.encoder.Encoder", "brave"},
	"java-brave-plain":        {"Main", "brave"},
	"java-jaeger":             {"com.example.hello.Hello", "opentracing"},
	"java-jaeger-auto":        {"App", "opentracing"},
	"java-jaeger-env":         {"com.example.env.App", "opentracing"},
	"java-opencensus":         {"com.example.helper.Helper", "opencensus"},
	"java-datadog":            {"com.example.cart.Cart", "opentracing"},
	"java-opentracing":        {"com.example.shop.Shop", "opentracing"},
	"java-opentracing-active": {"com.example.stock.Stock", "opentracing"},
}

// javaSpan is a span as the stubs record it.
type javaSpan struct {
	Attributes               map[string]any
	Events                   []map[string]any
	Ended, Error             bool
	Kind, Name, Parent, Span string
	Trace                    string
}

// TestJavaPrograms compiles and runs Java projects before and after their migration, against declarations of the
// libraries that record spans. Both versions record the same spans.
func TestJavaPrograms(t *testing.T) {
	vm := startJava(t)
	for name, program := range javaPrograms {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			require.NoError(t, os.CopyFS(work, os.DirFS(filepath.Join("testdata", name))))
			before := vm.run(t, work, program.library, program.main)
			for i := range before {
				before[i].translate()
			}
			for _, f := range migrated(t, work).Files {
				require.NoError(t, os.WriteFile(filepath.Join(work, filepath.FromSlash(f.Path)), f.After, 0o644))
			}
			require.NotEmpty(t, before)
			require.Equal(t, before, vm.run(t, work, "opentelemetry", program.main))
		})
	}
	require.NoError(t, vm.programs.Close())
	require.NoError(t, vm.Wait(), "%s", &vm.stderr)
}

// translate applies the table of attributes to a span of an old library.
func (s *javaSpan) translate() {
	attributes := map[string]any{}
	for k, v := range s.Attributes {
		attributes[migrate.AttributeKey(k)] = v
	}
	s.Attributes = attributes
	for _, e := range s.Events {
		if err, ok := e["error.object"].(string); ok {
			for _, k := range []string{"error.object", "error.kind", "message", "stack"} {
				delete(e, k)
			}
			_, message, _ := strings.Cut(err, ": ")
			e["event"], e["exception.message"] = "exception", message
		}
	}
}

// javaVM compiles and runs programs, all in one process: most of the time of javac and java is their start.
type javaVM struct {
	*exec.Cmd
	programs io.WriteCloser
	spans    *bufio.Scanner
	stderr   bytes.Buffer
}

func startJava(t *testing.T) *javaVM {
	t.Helper()
	vm := &javaVM{Cmd: exec.CommandContext(t.Context(), "java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"testdata/javastubs/Run.java")}
	var err error
	vm.programs, err = vm.StdinPipe()
	require.NoError(t, err)
	out, err := vm.StdoutPipe()
	require.NoError(t, err)
	vm.spans, vm.Stderr = bufio.NewScanner(out), &vm.stderr
	require.NoError(t, vm.Start())
	return vm
}

// run compiles the files of a directory with the declarations of a library, and returns the spans that the program
// records.
func (vm *javaVM) run(t *testing.T, dir, library, main string) []javaSpan {
	t.Helper()
	words := []string{t.TempDir(), main}
	for _, root := range []string{dir, "testdata/javastubs/recorder", filepath.Join("testdata/javastubs", library)} {
		require.NoError(t, filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if strings.HasSuffix(path, ".java") {
				words = append(words, path)
			}
			return err
		}))
	}
	slices.Sort(words[2:])
	_, err := fmt.Fprintln(vm.programs, strings.Join(words, "\t"))
	require.NoError(t, err)
	var spans []javaSpan
	for vm.spans.Scan() {
		if vm.spans.Text() == "" {
			return spans
		}
		var s javaSpan
		require.NoError(t, json.Unmarshal(vm.spans.Bytes(), &s), vm.spans.Text())
		spans = append(spans, s)
	}
	err = vm.Wait()
	require.FailNow(t, "the program failed", "%v\n%s", err, &vm.stderr)
	return nil
}
