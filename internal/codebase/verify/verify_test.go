// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"

	"assay/internal/assaytest"
	"assay/internal/codebase/sandbox"
	"assay/internal/report"
	"assay/internal/wire"
)

// sender is the first argument of this test program when it stands for tests that send telemetry. In a container it is
// the file sandbox.Program.
const sender = "send"

func TestMain(m *testing.M) {
	sandbox.Main()
	if len(os.Args) == 4 && os.Args[1] == sender {
		if err := send(os.Args[2], os.Args[3]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// needContainers ends a test on a machine that has no containers.
func needContainers(t *testing.T) {
	if err := new(Verifier).Available(t.Context()); err != nil {
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
		fmt.Fprintf(os.Stderr, "NOT TESTED: %s needs containers: %v\n", t.Name(), err)
		t.Skip(err)
	}
}

// tree copies a directory of testdata, with replacements of texts in a file.
func tree(t *testing.T, name, file string, replace ...string) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
	if file != "" {
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		changed := strings.NewReplacer(replace...).Replace(string(text))
		require.NotEqual(t, string(text), changed)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(changed), 0o644))
	}
	return dir
}

func verify(t *testing.T, v *Verifier, o Options) *Result {
	t.Helper()
	r, err := v.Verify(t.Context(), o)
	require.NoError(t, err)
	return r
}

// goVerifier returns a verifier whose tests read the build cache of this machine, where the packages that the module of
// a directory needs are compiled. `make test` has compiled most of them with the same flags.
func goVerifier(t *testing.T, dir string) *Verifier {
	flags := []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath"}
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), flags...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %v: %s", args, out)
		return strings.TrimSpace(string(out))
	}
	run("test", "-run", "^$", "./...")
	cache := run("env", "GOCACHE")
	return &Verifier{Time: time.Hour, ReadOnly: []string{cache}, Env: append(flags, "GOCACHE="+cache)}
}

// TestGo verifies changes of a Go service with the command for its manifest.
func TestGo(t *testing.T) {
	needContainers(t)
	before := tree(t, "go", "")
	var progress []string
	r := verify(t, goVerifier(t, before), Options{
		Before: before, After: tree(t, "go", "orders.go", `unit = ""`, `unit = "{order}"`), Rules: []string{"MET-002"},
		Progress: func(text string) { progress = append(progress, text) },
	})
	require.Equal(t, Verified, r.Status, "%+v %+v", r.Reason, r.Tests)
	require.Equal(t, "go test ./...", r.Command)
	require.Contains(t, r.Rules, report.RuleStates{Service: "orders", ID: "MET-002", Pair: report.Pair[report.RuleState]{Before: report.Failed, After: report.Passed}})
	require.Len(t, r.Scores, 1)
	require.Less(t, *r.Scores[0].Before, *r.Scores[0].After)
	require.Equal(t, &Telemetry{MetricPoints: 1}, r.Telemetry.After)
	require.Contains(t, r.Tests.After.Output, "ok  \texample.com/orders")
	require.Equal(t, []string{"tests before the change", "tests after the change"}, progress)
	same, err := exec.Command("diff", "-r", "testdata/go", before).CombinedOutput()
	require.NoError(t, err, string(same))
}

// TestNode verifies changes of a Node.js service.
func TestNode(t *testing.T) {
	needContainers(t)
	before := tree(t, "node", "")
	for name, c := range map[string]struct {
		replace []string
		status  Status
		reason  string
	}{
		"fix":              {[]string{"'user.email', 'jane.doe@shop.example.com'", "'cart.id', '1'"}, Verified, ""},
		"broken test":      {[]string{"'user.email', 'jane.doe@shop.example.com'", "'cart.id', '1'", "cart.length", "cart"}, Rejected, "after the change, the tests fail with exit code 1"},
		"no effect":        {[]string{"'add item'", "'add an item'"}, TestsPass, "SPA-006 still fails for cart"},
		"other rule fails": {[]string{"'user.email', 'jane.doe@shop.example.com'", "'cart.id', '1'", "'deployment.environment.name', 'test'", "'a', 'b'"}, Rejected, "RES-007 fails for cart after the change"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := verify(t, &Verifier{Time: time.Hour}, Options{Before: before, After: tree(t, "node", "cart.js", c.replace...), Rules: []string{"SPA-006"}})
			require.Equal(t, c.status, r.Status, "%+v", r)
			require.Equal(t, c.reason, r.Reason)
			require.Equal(t, "npm test --silent", r.Command)
			require.True(t, r.Tests.Before.Passed)
		})
	}
}

// send sends a request for each word in a file, over transport "http" or "grpc". See request for the words.
func send(file, transport string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, word := range strings.Fields(string(text)) {
		signal, body := request(word)
		if transport == "grpc" {
			conn, err := assaytest.Dial("127.0.0.1:4317")
			if err != nil {
				return err
			}
			_, err = assaytest.Export(context.Background(), conn, "", signal, body)
			if err := errors.Join(err, conn.Close()); err != nil {
				return err
			}
			continue
		}
		r, err := http.Post(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+"/v1/"+signal.String(), "application/x-protobuf", bytes.NewReader(body))
		if err != nil {
			return err
		}
		if err := r.Body.Close(); err != nil {
			return err
		}
		if r.StatusCode != http.StatusOK && !strings.HasPrefix(word, "huge") {
			return errors.New(r.Status)
		}
	}
	return nil
}

// request returns the request for a word, which is a signal and a kind of defect.
func request(word string) (wire.Signal, []byte) {
	now := time.Now()
	name, environment := "shop", "test"
	if word == "span-of-other" {
		name = "other"
	}
	attributes := map[string]any{"service.name": name, "deployment.environment.name": environment}
	if strings.HasPrefix(word, "span") || word == "huge" {
		traces := ptrace.NewTraces()
		r := traces.ResourceSpans().AppendEmpty()
		_ = r.Resource().Attributes().FromRaw(attributes)
		span := r.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
		span.SetName("checkout")
		span.SetKind(ptrace.SpanKindServer)
		span.SetTraceID([16]byte{1, byte(len(word))})
		span.SetSpanID([8]byte{1})
		span.SetStartTimestamp(stamp(now))
		span.SetEndTimestamp(stamp(now.Add(time.Millisecond)))
		if word == "span-email" {
			span.Attributes().PutStr("user.email", "jane.doe@shop.example.com")
		}
		if word == "huge" {
			span.Attributes().PutStr("text", strings.Repeat("x", 3<<20))
		}
		body, _ := ptraceotlp.NewExportRequestFromTraces(traces).MarshalProto()
		return wire.Traces, body
	}
	if word == "log" {
		body, _ := plogotlp.NewExportRequest().MarshalProto()
		return wire.Logs, body
	}
	metrics := pmetric.NewMetrics()
	r := metrics.ResourceMetrics().AppendEmpty()
	_ = r.Resource().Attributes().FromRaw(attributes)
	m := r.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("orders.count")
	if word != "metric-unit" {
		m.SetUnit("{order}")
	}
	point := m.SetEmptyGauge().DataPoints().AppendEmpty()
	point.SetIntValue(1)
	point.SetTimestamp(stamp(now))
	body, _ := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
	return wire.Metrics, body
}

// TestStatus verifies changes of the telemetry that tests send.
func TestStatus(t *testing.T) {
	needContainers(t)
	const rule = "SPA-006"
	for name, c := range map[string]struct {
		before, after string
		transport     string
		rules         []string
		status        Status
		reason        string
	}{
		"mended":              {"span-email", "span", "http", []string{rule}, Verified, ""},
		"mended, gRPC":        {"span-email", "span", "grpc", []string{rule}, Verified, ""},
		"not mended":          {"span-email", "span-email", "http", []string{rule}, TestsPass, "SPA-006 still fails for shop"},
		"no telemetry":        {"", "", "http", []string{rule}, TestsPass, "the tests send no telemetry"},
		"no more telemetry":   {"span-email", "", "http", []string{rule}, TestsPass, "after the change, the tests send no telemetry of shop"},
		"nothing to mend":     {"span", "span", "http", []string{rule}, TestsPass, "before the change, the telemetry of the tests fails none of the rules"},
		"not evaluated":       {"span-email", "metric", "http", []string{rule}, TestsPass, "after the change, the tests send no telemetry that SPA-006 evaluates for shop"},
		"renamed service":     {"span-email", "span-of-other", "http", []string{rule}, Verified, ""},
		"a rule fails":        {"span", "span-email", "http", []string{"MET-002"}, Rejected, "SPA-006 fails for shop after the change"},
		"the score falls":     {"span", "span metric-unit", "http", []string{rule}, Rejected, ""},
		"telemetry is added":  {"span", "span metric", "http", nil, Verified, ""},
		"no signal is added":  {"span", "span span", "http", nil, TestsPass, "the tests send no other signal after the change"},
		"too much telemetry":  {"span-email" + strings.Repeat(" huge", 12), "span", "http", []string{rule}, TestsPass, "the tests send too much telemetry to compare"},
		"empty requests only": {"log", "log", "http", []string{rule}, TestsPass, "the tests send no telemetry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dirs := [2]string{t.TempDir(), t.TempDir()}
			for i, words := range []string{c.before, c.after} {
				require.NoError(t, os.WriteFile(filepath.Join(dirs[i], "telemetry"), []byte(words), 0o600))
			}
			r := verify(t, &Verifier{Time: time.Hour}, Options{
				Before: dirs[0], After: dirs[1], Command: sandbox.Program + " send telemetry " + c.transport, Rules: c.rules,
			})
			require.Equal(t, c.status, r.Status, "%+v %+v", r, r.Tests.Before)
			if c.reason != "" {
				require.Equal(t, c.reason, r.Reason)
			}
			text, err := json.Marshal(r)
			require.NoError(t, err)
			require.NotContains(t, string(text), "jane.doe")
		})
	}
}

// TestReceiverLimits sends requests that are never stored. They count, and the body of one too many is not read.
func TestReceiverLimits(t *testing.T) {
	r, err := newReceiver()
	require.NoError(t, err)
	var listeners []net.Listener
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listeners = append(listeners, l)
	}
	r.serve(listeners)
	post := func() int {
		response, err := http.Post("http://"+listeners[0].Addr().String()+"/v1/traces", "application/x-protobuf", strings.NewReader("invalid"))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, http.StatusBadRequest, post())
	require.Equal(t, 1, r.begun)
	r.begun = maxRequests
	require.Equal(t, http.StatusRequestEntityTooLarge, post())
	http.DefaultClient.CloseIdleConnections()
	requests, dropped := r.close()
	require.Empty(t, requests)
	require.True(t, dropped)
}

func TestTestsThatFail(t *testing.T) {
	needContainers(t)
	empty := t.TempDir()
	for name, c := range map[string]struct {
		command string
		v       Verifier
		status  Status
		reason  string
	}{
		"always":          {"exit 3", Verifier{}, Unverified, "before the change, the tests fail with exit code 3"},
		"missing program": {"gradle-of-nowhere test", Verifier{}, Unverified, "before the change, a program that the tests need is missing"},
		"no end":          {"trap '' TERM; while :; do :; done", Verifier{Time: time.Second}, Unverified, "before the change, the tests exceed the limit for time"},
		"memory":          {"dd if=/dev/zero of=/dev/null bs=400M", Verifier{Memory: 128 << 20}, Unverified, "before the change, the tests exceed the limit for memory"},
		"after":           {"test ! -e after", Verifier{}, Rejected, "after the change, the tests fail with exit code 1"},
		"no command":      {"", Verifier{}, Unverified, "no command for tests is configured, and no manifest suggests one"},
		"no directory":    {"true", Verifier{ReadOnly: []string{filepath.Join(empty, "missing")}}, Unverified, ""},
	} {
		t.Run(name, func(t *testing.T) {
			after := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(after, "after"), nil, 0o600))
			r := verify(t, &c.v, Options{Before: empty, After: after, Command: c.command})
			require.Equal(t, c.status, r.Status, "%+v", r)
			if c.reason != "" {
				require.Equal(t, c.reason, r.Reason)
			}
		})
	}
}

// TestUnavailable verifies on a machine without bubblewrap.
func TestUnavailable(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	v := &Verifier{}
	require.ErrorIs(t, v.Available(t.Context()), sandbox.ErrUnavailable)
	r := verify(t, v, Options{Before: t.TempDir(), After: t.TempDir(), Command: "true"})
	require.Equal(t, Unverified, r.Status)
	require.Contains(t, r.Reason, "no sandbox is available: find the program bwrap")
	require.Nil(t, r.Tests.Before)
}

func TestErrors(t *testing.T) {
	_, err := new(Verifier).Verify(t.Context(), Options{Before: filepath.Join(t.TempDir(), "missing"), After: t.TempDir()})
	require.ErrorIs(t, err, os.ErrNotExist)
	cause := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err = new(Verifier).Verify(ctx, Options{Before: t.TempDir(), After: t.TempDir(), Command: "true"})
	require.ErrorIs(t, err, cause)
}

// TestOutput: the end of the output is kept, without control characters and secrets.
func TestOutput(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	script := `yes line | head -n 10000; printf '\033[31mred\033[0m \033]0;title\007 \342\200\256\n\377 password=hunter2hunter2 jane.doe@shop.example.com\ttab\n'; env`
	r := verify(t, &Verifier{Env: []string{"GOMODCACHE=/srv/go"}}, Options{Before: dir, After: dir, Command: script})
	out := r.Tests.After.Output
	require.LessOrEqual(t, len(out), maxOutput)
	require.True(t, strings.HasPrefix(out, "line\nline\n"))
	require.Contains(t, out, "red \uFFFD]0;title\uFFFD \uFFFD\n\uFFFD password=[redacted] [redacted]\ttab\n")
	require.Contains(t, out, "GOMODCACHE=/srv/go\n")
	require.Contains(t, out, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318\n")
}

func stamp(t time.Time) pcommon.Timestamp { return pcommon.NewTimestampFromTime(t) }
