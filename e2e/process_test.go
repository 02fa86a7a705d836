// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"assay/internal/rules/rulestest"
	"assay/internal/wire"
)

// program builds the program once, without cgo as it is released, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	// Under bin, which is not part of the repository, so that one copy is left at most;
	// the suite may run on both stores at a time.
	path, err := filepath.Abs("../bin/e2e/assay-" + *storeKind)
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", path, "../cmd/assay")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
})

// ran is how a run of the program ended.
type ran struct {
	code           int
	stdout, stderr string
}

// runAssay runs the program to its end, in an empty environment.
func runAssay(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	return runAssayWith(t, nil, stdin, args...)
}

// runAssayWith is runAssay with environment variables, each NAME=VALUE.
func runAssayWith(t *testing.T, environ []string, stdin string, args ...string) ran {
	t.Helper()
	path, err := program()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append([]string{"HOME=" + t.TempDir()}, environ...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// bootstrapKey is the key of the organization default of a daemon.
const bootstrapKey = "assay_sk_e2eE2E_00112233445566778899aabbccddeeff"

// daemon is a running `assay serve`.
type daemon struct {
	dir         string // of its data
	stdout, log string // files
	cmd         *exec.Cmd
	ended       chan struct{} // closed when the process has ended

	rest, root, otlp, grpc string // addresses, rest without /v1
	http                   *http.Client
	conn                   *grpc.ClientConn
}

// startDaemon starts the program on a data directory and waits until it serves.
// It is killed at the end of the test unless it was ended before.
func startDaemon(t *testing.T, dir string, args ...string) *daemon {
	t.Helper()
	return startDaemonWith(t, nil, dir, args...)
}

// startDaemonWith is startDaemon with environment variables, each NAME=VALUE.
func startDaemonWith(t *testing.T, environ []string, dir string, args ...string) *daemon {
	t.Helper()
	path, err := program()
	require.NoError(t, err)
	out := t.TempDir()
	d := &daemon{dir: dir, stdout: filepath.Join(out, "stdout"), log: filepath.Join(out, "log"), ended: make(chan struct{})}
	stdout, err := os.Create(d.stdout)
	require.NoError(t, err)
	defer stdout.Close()
	log, err := os.Create(d.log)
	require.NoError(t, err)
	defer log.Close()
	d.cmd = exec.Command(path, append([]string{
		"serve", "--data-dir", dir, "--log-format", "json",
		"--http-address", "127.0.0.1:0", "--otlp-grpc-address", "127.0.0.1:0", "--otlp-http-address", "127.0.0.1:0",
	}, args...)...)
	d.cmd.Env = append([]string{"HOME=" + out}, append(storeEnviron(t, dir), environ...)...)
	d.cmd.Stdout, d.cmd.Stderr = stdout, log
	require.NoError(t, d.cmd.Start())
	go func() {
		_ = d.cmd.Wait() // the state is kept in ProcessState
		close(d.ended)
	}()
	d.http = &http.Client{
		Timeout: 30 * time.Second,
		// Compression is asked for where a test is about it.
		Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 32},
	}
	t.Cleanup(func() {
		d.http.CloseIdleConnections()
		if d.conn != nil {
			d.conn.Close()
		}
		d.kill()
	})
	for deadline := time.Now().Add(30 * time.Second); !d.readAddresses(t); {
		require.True(t, d.running(), "the server did not start: %s", d.read(t, d.log))
		require.True(t, time.Now().Before(deadline), "the server does not serve: %s", d.read(t, d.log))
		time.Sleep(5 * time.Millisecond)
	}
	d.conn, err = grpc.NewClient(d.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	return d
}

// readAddresses reads from the log where the server listens.
func (d *daemon) readAddresses(t *testing.T) bool {
	t.Helper()
	for line := range strings.Lines(d.read(t, d.log)) {
		var l struct{ Msg, Rest, OTLP_HTTP, OTLP_GRPC string }
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "assay serves" {
			d.rest, d.otlp, d.grpc = l.Rest, "http://"+l.OTLP_HTTP, l.OTLP_GRPC
			d.root = strings.TrimSuffix(l.Rest, "/api")
			return true
		}
	}
	return false
}

func (d *daemon) read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func (d *daemon) running() bool {
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// kill ends the server as a crash would.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may have ended
	<-d.ended
}

// stop ends the server as an operator would, and checks that it ended well.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-d.ended:
	case <-time.After(20 * time.Second):
		require.Fail(t, "the server does not end")
	}
	require.Zero(t, d.cmd.ProcessState.ExitCode(), d.read(t, d.log))
}

var peak = regexp.MustCompile(`VmHWM:\s+([0-9]+) kB`)

// peakMemory returns the most memory that the server has had, in bytes.
func (d *daemon) peakMemory(t *testing.T) int64 {
	t.Helper()
	found := peak.FindStringSubmatch(d.read(t, fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid)))
	require.NotNil(t, found, "the process has ended")
	kB, err := strconv.ParseInt(found[1], 10, 64)
	require.NoError(t, err)
	return kB << 10
}

// assay runs a command beside the server, on its store.
func (d *daemon) assay(t *testing.T, args ...string) ran {
	t.Helper()
	return runAssayWith(t, storeEnviron(t, d.dir), "", append(args, "--data-dir", d.dir)...)
}

// newKey makes an API key.
func (d *daemon) newKey(t *testing.T, args ...string) string {
	t.Helper()
	r := d.assay(t, append([]string{"key", "create", "--name", "e2e"}, args...)...)
	require.Zero(t, r.code, r.stderr)
	return strings.TrimSpace(r.stdout)
}

// keyID returns the public part of a key.
func keyID(key string) string { return strings.Split(key, "_")[2] }

// newOrganization makes an organization with a key.
func (d *daemon) newOrganization(t *testing.T, name string) (key string) {
	t.Helper()
	r := d.assay(t, "organization", "create", name)
	require.Zero(t, r.code, r.stderr)
	return d.newKey(t, "--organization", name)
}

// answered is an HTTP response, read to its end.
type answered struct {
	status int
	header http.Header
	body   []byte
}

// ask does an HTTP request with headers by turns of name and value.
func (d *daemon) ask(ctx context.Context, method, url string, body []byte, headers ...string) (*answered, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return &answered{resp.StatusCode, resp.Header, text}, err
}

// get reads a path of the REST API, such as /v1/services, with a key; "" for none.
func (d *daemon) get(t *testing.T, key, path string, headers ...string) *answered {
	t.Helper()
	if key != "" {
		headers = append(headers, "Authorization", "Bearer "+key)
	}
	a, err := d.ask(t.Context(), http.MethodGet, d.rest+path, nil, headers...)
	require.NoError(t, err)
	return a
}

// post sends a request over OTLP/HTTP.
func (d *daemon) post(ctx context.Context, key string, signal wire.Signal, body []byte, headers ...string) (*answered, error) {
	return d.ask(ctx, http.MethodPost, d.otlp+"/v1/"+signal.String(), body,
		append([]string{"Authorization", "Bearer " + key, "Content-Type", "application/x-protobuf"}, headers...)...)
}

// call sends a request over OTLP/gRPC.
func (d *daemon) call(ctx context.Context, key string, signal wire.Signal, body []byte, options ...grpc.CallOption) (answer []byte, err error) {
	method := map[wire.Signal]string{
		wire.Traces:  "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
		wire.Metrics: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
		wire.Logs:    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
	}[signal]
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	err = d.conn.Invoke(ctx, method, body, &answer, append(options, grpc.ForceCodecV2(rawCodec{}))...)
	return answer, err
}

// mustPost sends a request that has to be taken, and returns the warning in the answer.
func (d *daemon) mustPost(t *testing.T, key string, r rulestest.Request) string {
	t.Helper()
	a, err := d.post(t.Context(), key, r.Signal, r.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	return string(a.body)
}

// codeOf returns the gRPC code of an error, OK for none.
func codeOf(err error) codes.Code { return status.Code(err) }

// The shapes of the REST API, as far as tests look at them.
type (
	envelope[T any] struct {
		Data T `json:"data"`
		Meta struct {
			Timestamp time.Time `json:"timestamp"`
			TraceID   string    `json:"trace_id"`
			Total     *int      `json:"total"`
			HasMore   *bool     `json:"has_more"`
		} `json:"meta"`
		Links map[string]string `json:"links"`
	}
	restService struct {
		ID             string `json:"id"`
		Name           string `json:"name"`
		Namespace      string `json:"namespace"`
		Environment    string `json:"environment"`
		Version        string `json:"version"`
		OrganizationID string `json:"organization_id"`

		FirstSeenAt time.Time  `json:"first_seen_at"`
		LastSeenAt  time.Time  `json:"last_seen_at"`
		Score       *restScore `json:"instrumentation_score"`
	}
	restScore struct {
		Score     int      `json:"score"`
		Category  string   `json:"category"`
		Window    int      `json:"calculation_window_seconds"`
		Evaluated []string `json:"evaluated_rule_ids"`
	}
	restInsight struct {
		ID          string         `json:"id"`
		ServiceID   string         `json:"service_id"`
		ServiceName string         `json:"service_name"`
		Status      string         `json:"status"`
		TraceID     string         `json:"trace_id"`
		Attributes  map[string]any `json:"attributes"`
		Type        struct {
			Name   string `json:"name"`
			RuleID string `json:"instrumentation_score_rule_id"`
			Impact string `json:"impact"`
			Signal string `json:"signal_type"`
		} `json:"insight_type"`
	}
	restOrganization struct {
		ID   string `json:"id"`
		Name string `json:"name"`
		Tier struct {
			Name     string   `json:"name"`
			Features []string `json:"features"`
		} `json:"tier"`
		Score          *struct{ Value int } `json:"score"`
		ServicesCount  int                  `json:"services_count"`
		ActiveInsights int                  `json:"active_insights_count"`
	}
	restError struct {
		Error struct {
			Code    string            `json:"code"`
			Message string            `json:"message"`
			Details map[string]string `json:"details"`
		} `json:"error"`
		Meta struct {
			Timestamp time.Time `json:"timestamp"`
			TraceID   string    `json:"trace_id"`
		} `json:"meta"`
	}
)

// getAs reads a path that has to answer 200.
func getAs[T any](t *testing.T, d *daemon, key, path string) envelope[T] {
	t.Helper()
	a := d.get(t, key, path)
	require.Equal(t, http.StatusOK, a.status, "%s: %s", path, a.body)
	var e envelope[T]
	require.NoError(t, json.Unmarshal(a.body, &e))
	return e
}

// insights returns all insights of an organization, from all pages.
func (d *daemon) insights(t *testing.T, key string) []restInsight {
	t.Helper()
	var all []restInsight
	for path := "/v1/insights?limit=100"; path != ""; {
		page := getAs[[]restInsight](t, d, key, path)
		all = append(all, page.Data...)
		path = strings.TrimPrefix(page.Links["next"], "/api")
	}
	return all
}

// service returns the service of a name, nil when it is not there.
func (d *daemon) service(t *testing.T, key, name string) *restService {
	t.Helper()
	for path := "/v1/services?limit=100"; path != ""; {
		page := getAs[[]restService](t, d, key, path)
		for _, s := range page.Data {
			if s.Name == name {
				return &s
			}
		}
		path = strings.TrimPrefix(page.Links["next"], "/api")
	}
	return nil
}

// failedRules returns the rules of the active insights of a service, by name.
func (d *daemon) failedRules(t *testing.T, key, name string) []string {
	t.Helper()
	failed := []string{}
	if s := d.service(t, key, name); s != nil {
		for _, i := range getAs[[]restInsight](t, d, key, "/v1/services/"+s.ID+"/insights?limit=100").Data {
			failed = append(failed, i.Type.RuleID)
		}
	}
	return failed
}

// eventually asks again until ok says yes.
func eventually(t *testing.T, within time.Duration, ok func() bool, what string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(20 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), fmt.Sprintf(what, args...))
	}
}

// long tells whether the variants that take minutes run too, and says how to run them.
func long(t *testing.T, what string) bool {
	t.Helper()
	if os.Getenv("ASSAY_E2E_LONG") != "" {
		return true
	}
	t.Logf("not run: %s; set ASSAY_E2E_LONG=1 to run it", what)
	return false
}
