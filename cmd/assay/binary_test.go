// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
	"assay/internal/report"
	"assay/internal/wire"
)

// recording returns OTLP/JSON of a service that fails rules of Normal and Important impact, and scores under
// 100.
func recording(t *testing.T) string {
	t.Helper()
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	var b bytes.Buffer
	for _, r := range []interface{ MarshalJSON() ([]byte, error) }{
		traceRequest("recorded", at), metricRequest("recorded", at), logRequest("recorded", at),
	} {
		line, err := r.MarshalJSON()
		require.NoError(t, err)
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func TestScoreExitCodes(t *testing.T) {
	good := file(t, "good.jsonl", recording(t))
	broken := file(t, "broken.jsonl", recording(t)+"{\"resourceSpans\": nonsense}\n")
	for _, c := range []struct {
		name   string
		args   []string
		stdin  string
		code   int
		stderr []string // expected parts; none: stderr is empty
	}{
		{name: "report", args: []string{good}},
		{name: "standard input", args: []string{"-"}, stdin: recording(t)},
		{name: "both", args: []string{"-", good}, stdin: recording(t)},
		{name: "min score met", args: []string{"--min-score", "1", good}},
		{name: "min score not met", args: []string{"--min-score", "90", good}, code: 1, stderr: []string{"recorded scores ", ", less than 90"}},
		{name: "fail on heavier", args: []string{"--fail-on", "Critical", good}},
		{name: "fail on same", args: []string{"--fail-on", "Important", good}, code: 1, stderr: []string{"recorded has the Important insight missing_deployment_environment"}},
		{name: "fail on lighter", args: []string{"--fail-on", "low", good}, code: 1, stderr: []string{"orphan_spans", "missing_log_severity"}},
		{name: "both not met", args: []string{"--fail-on", "Normal", "--min-score", "100", good}, code: 1, stderr: []string{"less than 100", "Normal insight"}},
		{name: "missing file", args: []string{"/does/not/exist"}, code: 2, stderr: []string{"assay: /does/not/exist: no such file or directory\n"}},
		{name: "broken file", args: []string{broken}, code: 2, stderr: []string{broken, fmt.Sprintf("byte %d:", len(recording(t))+len(`{"resourceSpans": `))}},
		{name: "one of two broken", args: []string{good, broken}, code: 2, stderr: []string{broken}},
		{name: "no OTLP", args: []string{"-"}, stdin: "hello\n", code: 2, stderr: []string{"assay: standard input: byte 0: not OTLP: this looks like plain text"}},
		{name: "another format", args: []string{"-"}, stdin: "# HELP up x\n", code: 2, stderr: []string{"not OTLP: this looks like metrics in the text format of Prometheus"}},
		{name: "directory", args: []string{filepath.Dir(good)}},
		{name: "missing directory", args: []string{filepath.Dir(good) + "/x/"}, code: 2, stderr: []string{"/x/"}},
		{name: "empty directory", args: []string{t.TempDir()}, code: 2, stderr: []string{"has no files"}},
		{name: "at", args: []string{"--at", "yesterday", good}, code: 2, stderr: []string{`assay: --at: "yesterday" is not a time such as 2026-11-30T12:00:00Z`}},
		{name: "at the beginning of time", args: []string{"--at", "0001-01-01T00:00:01Z", good}, code: 2, stderr: []string{"--at"}},
		{name: "usage", args: []string{"--min-score", "-1", good}, code: 2, stderr: []string{"--min-score"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runBinary(t, c.stdin, append([]string{"score"}, c.args...)...)
			require.Equal(t, c.code, r.code, r.stderr)
			for _, want := range c.stderr {
				require.Contains(t, r.stderr, want)
			}
			if len(c.stderr) == 0 {
				require.Empty(t, r.stderr)
			}
			if c.code < 2 {
				require.Contains(t, r.stdout, "test/recorded")
			} else {
				require.Empty(t, r.stdout)
			}
		})
	}
}

// TestScoreWindow checks that telemetry outside of the scoring window does not count, and that the command
// reports it.
func TestScoreWindow(t *testing.T) {
	in := file(t, "in.jsonl", recording(t))
	r := runBinary(t, "", "score", "--at", "2001-01-01T00:00:00Z", "--format", "json", in)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "3 of 3 records do not count, because they are outside of the scoring window from 2000-12-02T00:00:00Z to 2001-01-01T00:00:00Z: their times are from ")
	require.Contains(t, r.stderr, "(--at sets the end of the window)")
	var got report.Report
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
	require.Empty(t, got.Services)
	require.EqualValues(t, 1, got.Totals.Spans)

	r = runBinary(t, `{"resourceSpans":[{"instrumentationLibrarySpans":[{"spans":[{"name":"a"}]}]}]}`, "score", "-")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "the input has no spans, metric data points and log records")
}

// TestScorePipe reads a named pipe, as a shell passes for a process substitution.
func TestScorePipe(t *testing.T) {
	pipe, text := filepath.Join(t.TempDir(), "pipe"), recording(t)
	require.NoError(t, exec.CommandContext(t.Context(), "mkfifo", pipe).Run())
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte(text), 0) }() // waits for the reader
	r := runBinary(t, "", "score", "--format", "json", pipe)
	require.Zero(t, r.code, r.stderr)
	require.NoError(t, <-written)
	var got report.Report
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
	require.EqualValues(t, 1, got.Totals.Spans)
}

// TestScoreDirectory reads the files below a directory in order, and none outside of it.
func TestScoreDirectory(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(filepath.Join(dir, "b", "c.jsonl"), recording(t))
	write(filepath.Join(dir, "a.jsonl"), recording(t))
	write(filepath.Join(dir, ".hidden"), "no OTLP")
	write(filepath.Join(dir, ".git", "config"), "no OTLP")
	write(filepath.Join(outside, "x.jsonl"), "no OTLP")
	for _, link := range []struct{ to, name string }{
		{filepath.Join(outside, "x.jsonl"), "file"}, {outside, "directory"}, {dir, "loop"}, {filepath.Join(dir, "a.jsonl"), "twice.jsonl"}, {"nowhere", "broken"},
	} {
		require.NoError(t, os.Symlink(link.to, filepath.Join(dir, link.name)))
	}
	r := runBinary(t, "", "score", "--format", "json", dir)
	require.Zero(t, r.code, r.stderr)
	var got report.Report
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
	require.EqualValues(t, 2, got.Totals.Spans, "each file once")

	// Other files are skipped, unless there are no OTLP files or the files are damaged OTLP.
	write(filepath.Join(dir, "README.md"), "no OTLP")
	write(filepath.Join(dir, "b", "package.json"), `{"name":"x"}`)
	write(filepath.Join(dir, "b", "rotated.jsonl"), "")
	write(filepath.Join(dir, "b", "x\nassay: all is well\u202e"), "no OTLP")
	r = runBinary(t, "", "score", "--format", "json", dir)
	require.Zero(t, r.code, r.stderr)
	for name, why := range map[string]string{"README.md": "not OTLP: this looks like plain text", "b/package.json": "not OTLP: this looks like JSON", "b/rotated.jsonl": "input is empty"} {
		require.Contains(t, r.stderr, "assay: skipped "+filepath.Join(dir, filepath.FromSlash(name))+": byte 0: "+why)
	}
	require.Contains(t, r.stderr, filepath.Join(dir, "b", "x assay: all is well\uFFFD")+": byte 0: not OTLP", "a name cannot add a line")
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
	require.EqualValues(t, 2, got.Totals.Spans)
	r = runBinary(t, "", "score", filepath.Join(dir, "README.md"))
	require.Equal(t, exitUsage, r.code, "a file that is given")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(filepath.Join(dir, "b"), link))
	require.Zero(t, runBinary(t, "", "score", link).code, "a link that is given")
	write(filepath.Join(dir, "b", "d.jsonl"), recording(t)[:20])
	r = runBinary(t, "", "score", dir)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, filepath.Join(dir, "b", "d.jsonl")+": byte 0: input ends within a request")
	other := t.TempDir()
	write(filepath.Join(other, "README.md"), "no OTLP")
	r = runBinary(t, "", "score", other)
	require.Equal(t, exitUsage, r.code, "no file is OTLP")
}

func TestScoreFormats(t *testing.T) {
	in := file(t, "in.jsonl", recording(t))
	for format, check := range map[string]func(string){
		"text": func(s string) { require.Contains(t, s, "More: assay rules SPA-002") },
		"json": func(s string) {
			var r report.Report
			require.NoError(t, json.Unmarshal([]byte(s), &r))
			require.Equal(t, "recorded", r.Services[0].Name)
			require.ElementsMatch(t, wantFailed, r.Services[0].FailedRuleIDs)
			require.Equal(t, report.Totals{Spans: 1, MetricDataPoints: 1, LogRecords: 1, Bytes: r.Totals.Bytes}, r.Totals)
		},
		"markdown": func(s string) { require.Contains(t, s, "| test/recorded |") },
		"junit":    func(s string) { require.NoError(t, xml.Unmarshal([]byte(s), new(struct{}))) },
		"sarif":    func(s string) { require.Contains(t, s, in) },
	} {
		r := runBinary(t, "", "score", "--format", format, in)
		require.Zero(t, r.code, r.stderr)
		check(r.stdout)

		out := filepath.Join(t.TempDir(), "report")
		toFile := runBinary(t, "", "score", "--format", format, "--output", out, in)
		require.Zero(t, toFile.code, toFile.stderr)
		require.Empty(t, toFile.stdout)
		text, err := os.ReadFile(out)
		require.NoError(t, err)
		require.Equal(t, r.stdout, string(text), format)
	}
	r := runBinary(t, "", "score", "--output", "/does/not/exist/report", in)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "write the report")
}

func TestMinScoreWithoutTelemetry(t *testing.T) {
	in := file(t, "in.jsonl", `{"resourceSpans":[]}`+"\n")
	require.Zero(t, runBinary(t, "", "score", in).code)
	r := runBinary(t, "", "score", "--min-score", "1", in)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "\nassay: no service has a score, so none reaches 1\n")
}

func TestStoreCommands(t *testing.T) {
	dir := t.TempDir()
	assay := func(args ...string) result {
		return runBinary(t, "", append(args, "--data-dir", dir)...)
	}
	for _, args := range [][]string{
		{"key", "list"},
		{"organization", "list"},
		{"insight", "list"},
		{"insight", "mute", "x"},
		{"key", "revoke", "abcdef"},
		{"organization", "set-tier", "x", "pro"},
		{"organization", "set-external-id", "x", "org_1"},
		{"key", "create", "--name", "x"},
	} {
		r := assay(args...)
		require.Equal(t, 1, r.code, args)
		require.Contains(t, r.stderr, "there is no store at", args)
		require.NoFileExists(t, filepath.Join(dir, "assay.db"), args)
	}

	require.Zero(t, assay("store", "migrate").code)
	require.Zero(t, assay("store", "migrate").code, "migrate twice")

	r := assay("organization", "create", "acme", "--external-id", "ext-1", "--tier", "pro")
	require.Zero(t, r.code, r.stderr)
	id := strings.TrimSpace(r.stdout)
	require.Regexp(t, `^[0-9a-f-]{36}$`, id)
	require.Equal(t, 1, assay("organization", "create", "acme").code)
	require.Zero(t, assay("organization", "create", "evil\x1b[31m name").code)

	require.Zero(t, assay("organization", "set-tier", "acme", "enterprise").code)
	require.Equal(t, 1, assay("organization", "set-tier", "nobody", "pro").code)
	require.Zero(t, assay("organization", "set-external-id", "acme", "org_acme").code)
	require.Contains(t, assay("organization", "list").stdout, "org_acme")
	r = assay("organization", "list")
	require.NotContains(t, r.stdout, "\x1b")
	lines := strings.Split(r.stdout, "\n")
	require.Len(t, lines, 4)
	require.Equal(t, strings.Index(lines[0], "TIER"), strings.Index(lines[1], "enterprise"), "aligned")
	var organizations []organizationRow
	require.NoError(t, json.Unmarshal([]byte(assay("organization", "list", "--format", "json").stdout), &organizations))
	require.Len(t, organizations, 2)
	require.Equal(t, id, organizations[0].ID)
	require.Equal(t, "enterprise", organizations[0].Tier)
	require.Equal(t, "org_acme", organizations[0].ExternalID)

	r = assay("key", "create", "--organization", "acme", "--name", "ci", "--scopes", "ingest,read", "--expires-in", "24h")
	require.Zero(t, r.code, r.stderr)
	require.Regexp(t, `^assay_sk_[A-Za-z0-9]{6}_[0-9a-f]{32}\n$`, r.stdout, "prints only the key")
	key := strings.TrimSpace(r.stdout)
	require.NotContains(t, r.stderr, key)
	keyID := strings.Split(key, "_")[2]
	require.Equal(t, 1, assay("key", "create", "--name", "x").code, "there is no organization default")

	var keys []keyRow
	out := assay("key", "list", "--format", "json").stdout
	require.NotContains(t, out, key[len(key)-32:])
	require.NoError(t, json.Unmarshal([]byte(out), &keys))
	require.Len(t, keys, 1)
	require.Equal(t, keyID, keys[0].ID)
	require.Equal(t, "active", keys[0].Status)
	require.Equal(t, "acme", keys[0].Organization)
	require.Len(t, keys[0].Scopes, 2)
	require.InDelta(t, 24*time.Hour, time.Until(*keys[0].ExpiresAt), float64(time.Minute))
	require.JSONEq(t, "[]", assay("key", "list", "--format", "json", "--organization", organizations[1].Name).stdout)

	require.Equal(t, 1, assay("key", "revoke", "nobody").code)
	whole := assay("key", "revoke", key)
	require.Equal(t, 1, whole.code)
	require.NotContains(t, whole.stderr, key)
	require.Zero(t, assay("key", "revoke", keyID).code)
	require.Contains(t, assay("key", "list").stdout, "revoked")

	require.JSONEq(t, "[]", assay("insight", "list", "--format", "json").stdout)
	for _, bad := range []string{"x", "6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"} {
		for _, verb := range []string{"mute", "unmute"} {
			r := assay("insight", verb, bad)
			require.Equal(t, 1, r.code)
			require.Equal(t, fmt.Sprintf("assay: there is no insight %q\n", bad), r.stderr)
		}
	}
}

// serveBinary starts the program and waits until it is ready.
func serveBinary(t *testing.T, dir string, args ...string) *assaytest.Server {
	t.Helper()
	d, err := assaytest.Start(t.Context(), assaytest.Config{
		Dir: dir, Args: append([]string{"--score-interval", "100ms", "--trace-idle", "200ms"}, args...), Environ: []string{"ASSAY_BOGUS=1"},
	})
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

var printedKey = regexp.MustCompile(`assay_sk_[A-Za-z0-9]{6}_[0-9a-f]{32}`)

// createdKey returns the key that the server created for an empty store.
func createdKey(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, bootstrapKeyFile))
	require.NoError(t, err)
	require.Regexp(t, "^"+printedKey.String()+"\n$", string(text))
	return strings.TrimSpace(string(text))
}

// TestServeStopsOnSignal sends continuously while the server shuts down. The server exits with 0, and a
// restarted server has all acknowledged telemetry. SIGHUP, which reloads certificates, does not stop the
// server.
func TestServeStopsOnSignal(t *testing.T) {
	dir := t.TempDir()
	d := serveBinary(t, dir)
	require.Contains(t, d.Log.String(), `"warning":"the environment variable ASSAY_BOGUS is not a setting of this version"`)
	key := createdKey(t, dir)
	require.Empty(t, d.Stdout.String(), "not a terminal")
	require.NotContains(t, d.Log.String(), key)
	require.Contains(t, d.Log.String(), `"file":"`+filepath.Join(dir, bootstrapKeyFile)+`"`)
	c := client(t)
	require.NoError(t, d.Signal(syscall.SIGHUP))

	acknowledged := make(chan int)
	var some atomic.Bool
	go func() {
		n := 0
		for i := 0; ; i++ {
			body, _ := logRequest(fmt.Sprintf("service-%05d", i), time.Now()).MarshalProto()
			r, err := assaytest.Post(context.Background(), d.Client, d.OTLPHTTP, key, wire.Logs, body)
			if err != nil || r.Status != http.StatusOK {
				acknowledged <- n
				return
			}
			if n++; n == 3 {
				some.Store(true)
			}
		}
	}()
	require.Eventually(t, some.Load, assaytest.Limit, time.Millisecond)
	require.NoError(t, d.Signal(syscall.SIGTERM))
	n := <-acknowledged
	state := d.Wait()
	require.Zero(t, state.ExitCode(), d.Log)
	require.Positive(t, n)
	require.NotContains(t, d.Log.String(), key)

	restarted := serveBinary(t, dir)
	_, body := get(t, c, restarted.REST+"/v1/services?limit=1", key)
	var l list
	require.NoError(t, json.Unmarshal([]byte(body), &l))
	require.GreaterOrEqual(t, l.Meta.Total, n)
	require.LessOrEqual(t, l.Meta.Total, n+1, "one more may be stored without a response")
	require.NoError(t, restarted.Signal(syscall.SIGINT))
	state = restarted.Wait()
	require.Zero(t, state.ExitCode(), restarted.Log)
	require.Empty(t, restarted.Stdout.String(), "no second key")
}

// TestServeAfterClosedLog: the server still stops in order after the reader of its log has exited.
func TestServeAfterClosedLog(t *testing.T) {
	path, err := assaytest.Binary()
	require.NoError(t, err)
	log, end, err := os.Pipe()
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.CommandContext(t.Context(), path, "serve", "--data-dir", t.TempDir(),
		"--http-address", "127.0.0.1:0", "--otlp-grpc-address", "127.0.0.1:0", "--otlp-http-address", "127.0.0.1:0")
	cmd.Stderr = end
	require.NoError(t, cmd.Start())
	require.NoError(t, end.Close())
	lines := bufio.NewScanner(log)
	for lines.Scan() && !strings.Contains(lines.Text(), "assay serves") {
	}
	require.Contains(t, lines.Text(), "assay serves")
	require.NoError(t, log.Close())
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

// TestServeAfterKill kills the server and checks that acknowledged telemetry is stored.
func TestServeAfterKill(t *testing.T) {
	dir := t.TempDir()
	d := serveBinary(t, dir, "--bootstrap-api-key", testKey)
	c := client(t)
	body, err := logRequest("kept", time.Now()).MarshalProto()
	require.NoError(t, err)
	sent, err := assaytest.Post(t.Context(), d.Client, d.OTLPHTTP, testKey, wire.Logs, body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, sent.Status)
	d.Kill()

	restarted := serveBinary(t, dir)
	require.Eventually(t, func() bool {
		_, body := get(t, c, restarted.REST+"/v1/services", testKey)
		return strings.Contains(body, `"name":"kept"`) && strings.Contains(body, `"score":`)
	}, assaytest.Limit, 50*time.Millisecond)
}

// TestSecondSignalStopsImmediately delays the shutdown with an incomplete request.
func TestSecondSignalStopsImmediately(t *testing.T) {
	d := serveBinary(t, t.TempDir(), "--bootstrap-api-key", testKey)
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.OTLPHTTP, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/logs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nx", testKey)
	require.Eventually(t, func() bool {
		_, body := get(t, client(t), d.Root+"/metrics", "")
		return strings.Contains(body, "\nassay_receive_requests_in_flight 1\n")
	}, assaytest.Limit, 10*time.Millisecond)
	require.NoError(t, d.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool { return strings.Contains(d.Log.String(), "shutting down") }, assaytest.Limit, time.Millisecond)
	// Shortly after that line, signals have their default effect.
	require.NoError(t, assaytest.Await(t.Context(), assaytest.Limit, assaytest.PollInterval, func() error {
		if d.Running() {
			_ = d.Signal(syscall.SIGTERM) // it may have exited
			return errors.New("the server is still running")
		}
		return nil
	}))
	state := d.Wait()
	status := state.Sys().(syscall.WaitStatus)
	require.True(t, status.Signaled(), d.Log)
	require.Equal(t, syscall.SIGTERM, status.Signal())
}

func TestServeRefusesToStart(t *testing.T) {
	r := runBinary(t, "", "serve", "--http-address", "x", "--window", "1m", "--log-level", "loud")
	require.Equal(t, exitUsage, r.code)
	r = runBinary(t, "", "serve", "--http-address", "x", "--window", "1m")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "--http-address")
	require.Contains(t, r.stderr, "--window")

	r = runBinary(t, "", "serve", "--data-dir", file(t, "a-file", ""), "--http-address", "127.0.0.1:0", "--otlp-grpc-address", "127.0.0.1:0", "--otlp-http-address", "127.0.0.1:0")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "open the store")
}
