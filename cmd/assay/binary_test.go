// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
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

	"assay/internal/report"
)

// recording is OTLP/JSON of a service that fails some rules, of Normal and
// Important impact, and scores under 100.
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
		stderr []string // that it holds; none: nothing
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
		{name: "missing file", args: []string{"/does/not/exist"}, code: 2, stderr: []string{"/does/not/exist"}},
		{name: "broken file", args: []string{broken}, code: 2, stderr: []string{broken, fmt.Sprintf("byte %d:", len(recording(t))+len(`{"resourceSpans": `))}},
		{name: "one of two broken", args: []string{good, broken}, code: 2, stderr: []string{broken}},
		{name: "no OTLP", args: []string{"-"}, stdin: "hello\n", code: 2, stderr: []string{"standard input", "byte "}},
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
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "write the report")
}

func TestMinScoreOfNothing(t *testing.T) {
	in := file(t, "in.jsonl", `{"resourceSpans":[]}`+"\n")
	require.Zero(t, runBinary(t, "", "score", in).code)
	r := runBinary(t, "", "score", "--min-score", "1", in)
	require.Equal(t, 1, r.code)
	require.Equal(t, "assay: no service has a score, so none reaches 1\n", r.stderr)
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
	require.Zero(t, assay("store", "migrate").code, "again")

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
	require.Regexp(t, `^assay_sk_[A-Za-z0-9]{6}_[0-9a-f]{32}\n$`, r.stdout, "the key alone")
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

// daemon is a running `assay serve`.
type daemon struct {
	cmd            *exec.Cmd
	rest, otlpHTTP string
	stdout, log    *output
	logged         chan struct{} // closed when the log has ended
}

// serveBinary starts the program and waits until it serves.
func serveBinary(t *testing.T, dir string, args ...string) *daemon {
	t.Helper()
	d := &daemon{stdout: new(output), log: new(output), logged: make(chan struct{})}
	args = append([]string{
		"serve", "--log-format", "json", "--data-dir", dir,
		"--http-address", "127.0.0.1:0", "--otlp-grpc-address", "127.0.0.1:0", "--otlp-http-address", "127.0.0.1:0",
		"--score-interval", "100ms", "--trace-idle", "200ms",
	}, args...)
	d.cmd = exec.Command(binary, args...)
	d.cmd.Env = []string{"ASSAY_BOGUS=1"}
	d.cmd.Stdout = d.stdout
	stderr, err := d.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, d.cmd.Start())
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil {
			_ = d.cmd.Process.Kill()
			_, _ = d.end()
		}
	})
	ready := make(chan struct{})
	go func() {
		defer close(d.logged)
		lines := bufio.NewScanner(io.TeeReader(stderr, d.log))
		for lines.Scan() {
			var line struct{ Msg, Rest, OTLP_HTTP string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "assay serves" {
				d.rest, d.otlpHTTP = line.Rest, line.OTLP_HTTP
				close(ready)
			}
		}
	}()
	select {
	case <-ready:
	case <-d.logged:
		t.Fatalf("the server did not start: %s", d.log)
	case <-time.After(30 * time.Second):
		t.Fatalf("the server does not serve: %s", d.log)
	}
	return d
}

// end waits for the end of the program and returns its state.
func (d *daemon) end() (*os.ProcessState, error) {
	<-d.logged
	err := d.cmd.Wait()
	if _, ended := err.(*exec.ExitError); ended {
		err = nil
	}
	return d.cmd.ProcessState, err
}

func (d *daemon) send(t *testing.T, c *http.Client, key string, body []byte) (int, error) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+d.otlpHTTP+"/v1/logs", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

var printedKey = regexp.MustCompile(`assay_sk_[A-Za-z0-9]{6}_[0-9a-f]{32}`)

// madeKey returns the key of a store that was empty.
func madeKey(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, bootstrapKeyFile))
	require.NoError(t, err)
	require.Regexp(t, "^"+printedKey.String()+"\n$", string(text))
	return strings.TrimSpace(string(text))
}

// TestServeEndsOnASignal sends without pause while the server is told to end: it
// exits with 0, and after a restart everything acknowledged is there. The signal to
// read certificates again ends nothing.
func TestServeEndsOnASignal(t *testing.T) {
	dir := t.TempDir()
	d := serveBinary(t, dir)
	require.Contains(t, d.log.String(), `"warning":"the environment variable ASSAY_BOGUS is not a setting of this version"`)
	key := madeKey(t, dir)
	require.Empty(t, d.stdout.String(), "no terminal")
	require.NotContains(t, d.log.String(), key)
	require.Contains(t, d.log.String(), `"file":"`+filepath.Join(dir, bootstrapKeyFile)+`"`)
	c := client(t)
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))

	acknowledged := make(chan int)
	var some atomic.Bool
	go func() {
		n := 0
		for i := 0; ; i++ {
			body, _ := logRequest(fmt.Sprintf("service-%05d", i), time.Now()).MarshalProto()
			code, err := d.send(t, c, key, body)
			if err != nil || code != http.StatusOK {
				acknowledged <- n
				return
			}
			if n++; n == 3 {
				some.Store(true)
			}
		}
	}()
	require.Eventually(t, some.Load, time.Minute, time.Millisecond)
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
	n := <-acknowledged
	state, err := d.end()
	require.NoError(t, err)
	require.Zero(t, state.ExitCode(), d.log)
	require.Positive(t, n)
	require.NotContains(t, d.log.String(), key)

	again := serveBinary(t, dir)
	_, body := get(t, c, again.rest+"/v1/services?limit=1", key)
	var l list
	require.NoError(t, json.Unmarshal([]byte(body), &l))
	require.GreaterOrEqual(t, l.Meta.Total, n)
	require.LessOrEqual(t, l.Meta.Total, n+1, "one may be there whose answer was lost")
	require.NoError(t, again.cmd.Process.Signal(syscall.SIGINT))
	state, err = again.end()
	require.NoError(t, err)
	require.Zero(t, state.ExitCode(), again.log)
	require.Empty(t, again.stdout.String(), "no second key")
}

// TestServeSurvivesAKill kills the server and looks for what it had acknowledged.
func TestServeSurvivesAKill(t *testing.T) {
	dir := t.TempDir()
	d := serveBinary(t, dir, "--bootstrap-api-key", testKey)
	c := client(t)
	body, err := logRequest("kept", time.Now()).MarshalProto()
	require.NoError(t, err)
	code, err := d.send(t, c, testKey, body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	require.NoError(t, d.cmd.Process.Kill())
	_, err = d.end()
	require.NoError(t, err)

	again := serveBinary(t, dir)
	require.Eventually(t, func() bool {
		_, body := get(t, c, again.rest+"/v1/services", testKey)
		return strings.Contains(body, `"name":"kept"`) && strings.Contains(body, `"score":`)
	}, time.Minute, 50*time.Millisecond)
}

// TestASecondSignalEndsAtOnce holds the shutdown up by a request that never
// arrives whole.
func TestASecondSignalEndsAtOnce(t *testing.T) {
	d := serveBinary(t, t.TempDir(), "--bootstrap-api-key", testKey)
	conn, err := net.Dial("tcp", d.otlpHTTP)
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/logs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nx", testKey)
	require.Eventually(t, func() bool {
		_, body := get(t, client(t), strings.TrimSuffix(d.rest, "/api")+"/metrics", "")
		return strings.Contains(body, "\nassay_receive_requests_in_flight 1\n")
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool { return strings.Contains(d.log.String(), "shutting down") }, time.Minute, time.Millisecond)
	time.Sleep(20 * time.Millisecond) // after the line, signals get their default effect
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
	state, err := d.end()
	require.NoError(t, err)
	status := state.Sys().(syscall.WaitStatus)
	require.True(t, status.Signaled(), d.log)
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
