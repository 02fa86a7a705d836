// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"assay/internal/assaytest"
	"assay/internal/rules/rulestest"
	"assay/internal/wire"
)

// bootstrapKey is the key of the organization default of a daemon.
const bootstrapKey = assaytest.Key

// runAssay runs the program until it exits, with environment variables NAME=VALUE.
func runAssay(t *testing.T, environ []string, args ...string) assaytest.Result {
	t.Helper()
	path, err := assaytest.Binary()
	require.NoError(t, err)
	r, err := assaytest.Run(t.Context(), path, t.TempDir(), environ, "", args...)
	require.NoError(t, err)
	return r
}

// daemon is a running `assay serve`.
type daemon struct{ *assaytest.Server }

// startDaemon starts the program on a data directory and waits until it is ready. It is killed at the end of
// the test unless it was stopped before.
func startDaemon(t *testing.T, dir string, args ...string) *daemon {
	t.Helper()
	return startDaemonWith(t, nil, dir, args...)
}

// startDaemonWith is like startDaemon with environment variables NAME=VALUE.
func startDaemonWith(t *testing.T, environ []string, dir string, args ...string) *daemon {
	t.Helper()
	s, err := assaytest.Start(t.Context(), assaytest.Config{Dir: dir, Args: args, Environ: append(storeEnviron(t, dir), environ...)})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return &daemon{s}
}

// stop stops the server with a signal and checks its exit code.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, d.Stop())
}

// errorLines returns the errors in the server's log. It skips transactions that timed out: on a busy machine
// this happens, and senders retry.
func (d *daemon) errorLines() (lines []string) {
	for line := range strings.Lines(d.Log.String()) {
		if strings.Contains(line, `"level":"ERROR"`) && !strings.Contains(line, context.DeadlineExceeded.Error()) {
			lines = append(lines, line)
		}
	}
	return lines
}

// peakMemory returns the peak memory of the server in bytes.
func (d *daemon) peakMemory(t *testing.T) int64 {
	t.Helper()
	_, peak, err := d.Memory()
	require.NoError(t, err)
	return peak
}

// assay runs a command on the server's store while the server runs.
func (d *daemon) assay(t *testing.T, args ...string) assaytest.Result {
	t.Helper()
	return runAssay(t, storeEnviron(t, d.Dir), append(args, "--data-dir", d.Dir)...)
}

// newKey creates an API key.
func (d *daemon) newKey(t *testing.T, args ...string) string {
	t.Helper()
	r := d.assay(t, append([]string{"key", "create", "--name", "e2e"}, args...)...)
	require.Zero(t, r.Code, r.Stderr)
	return strings.TrimSpace(r.Stdout)
}

// keyID returns the public part of a key.
func keyID(key string) string { return strings.Split(key, "_")[2] }

// newOrganization creates an organization and a key.
func (d *daemon) newOrganization(t *testing.T, name string) (key string) {
	t.Helper()
	r := d.assay(t, "organization", "create", name)
	require.Zero(t, r.Code, r.Stderr)
	return d.newKey(t, "--organization", name)
}

// answered is an HTTP response with its body.
type answered = assaytest.Response

// ask sends an HTTP request. Headers are pairs of name and value.
func (d *daemon) ask(ctx context.Context, method, url string, body []byte, headers ...string) (*answered, error) {
	return assaytest.Do(ctx, d.Client, method, url, "", body, headers...)
}

// get sends a GET request for a path of the REST API, such as /v1/services, with a key or "" for none.
func (d *daemon) get(t *testing.T, key, path string, headers ...string) *answered {
	t.Helper()
	a, err := assaytest.Do(t.Context(), d.Client, http.MethodGet, d.REST+path, key, nil, headers...)
	require.NoError(t, err)
	return a
}

// post sends a request over OTLP/HTTP.
func (d *daemon) post(ctx context.Context, key string, signal wire.Signal, body []byte, headers ...string) (*answered, error) {
	return assaytest.Post(ctx, d.Client, d.OTLPHTTP, key, signal, body, headers...)
}

// call sends a request over OTLP/gRPC.
func (d *daemon) call(ctx context.Context, key string, signal wire.Signal, body []byte, options ...grpc.CallOption) (answer []byte, err error) {
	return assaytest.Export(ctx, d.Conn, key, signal, body, options...)
}

// mustPost sends a request until it is accepted, like an exporter with a busy server. It returns the warning
// of the response.
func (d *daemon) mustPost(t *testing.T, key string, r rulestest.Request) string {
	t.Helper()
	var a *answered
	eventually(t, func() bool {
		var err error
		a, err = d.post(t.Context(), key, r.Signal, r.Body)
		require.NoError(t, err)
		return a.Status != http.StatusServiceUnavailable
	}, "the server accepts no requests")
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	return string(a.Body)
}

// The parts of REST API responses that the tests read.
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

// getAs reads a path that must answer 200.
func getAs[T any](t *testing.T, d *daemon, key, path string) envelope[T] {
	t.Helper()
	var e envelope[T]
	require.NoError(t, assaytest.GetJSON(t.Context(), d.Client, d.REST+path, key, &e))
	return e
}

// insights returns all insights of an organization.
func (d *daemon) insights(t *testing.T, key string) []restInsight {
	t.Helper()
	all, err := assaytest.List[restInsight](t.Context(), d.Client, d.REST, key, "/v1/insights")
	require.NoError(t, err)
	return all
}

// service returns the service with a name, or nil.
func (d *daemon) service(t *testing.T, key, name string) *restService {
	t.Helper()
	all, err := assaytest.List[restService](t.Context(), d.Client, d.REST, key, "/v1/services")
	require.NoError(t, err)
	for _, s := range all {
		if s.Name == name {
			return &s
		}
	}
	return nil
}

// failedRules returns the rules of the active insights of a service.
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

// eventually calls ok until it returns true.
func eventually(t *testing.T, ok func() bool, what string, args ...any) {
	t.Helper()
	require.NoError(t, assaytest.Await(t.Context(), assaytest.Limit, assaytest.PollInterval, func() error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	}), fmt.Sprintf(what, args...))
}

// long reports whether variants that take minutes run, and logs how to run them.
func long(t *testing.T, what string) bool {
	t.Helper()
	if os.Getenv("ASSAY_E2E_LONG") != "" {
		return true
	}
	t.Logf("skipped: %s; set ASSAY_E2E_LONG=1 to run it", what)
	return false
}
