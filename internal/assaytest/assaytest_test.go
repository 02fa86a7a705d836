// SPDX-License-Identifier: Apache-2.0

package assaytest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/internal/wire"
)

// The test binary also acts as the program: childEnv selects what it does.
const childEnv = "ASSAYTEST_CHILD"

func TestMain(m *testing.M) {
	switch what, address, _ := strings.Cut(os.Getenv(childEnv), " "); what {
	case "":
		goleak.VerifyTestMain(m)
	case "serve":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		fmt.Fprintln(os.Stderr, `{"msg":"something else"}`)
		fmt.Fprintf(os.Stderr, `{"msg":"assay serves","rest":"http://%s/api","otlp_http":"%[1]s","otlp_grpc":"%[1]s"}`+"\n", address)
		<-ctx.Done()
	case "fail":
		fmt.Fprintln(os.Stderr, "no reason")
		os.Exit(3)
	case "parent": // starts a child and is killed
		p, err := StartProcess("child", child(context.Background(), "serve x"), nil)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(p.PID())
		<-p.Ended()
	}
}

func child(ctx context.Context, what string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	return cmd
}

func TestServer(t *testing.T) {
	var asked http.Header
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header
		switch r.URL.String() {
		case "/readyz":
		case "/metrics":
			fmt.Fprint(w, "# TYPE a gauge\na{b=\"c d\"} 2\na{b=\"e\"} 3.5\nab 1e3\n")
		case "/api/v1/list?sort=x&limit=100":
			fmt.Fprint(w, `{"data":[1,2],"links":{"next":"/api/v1/list?offset=2"}}`)
		case "/api/v1/list?offset=2":
			fmt.Fprint(w, `{"data":[3]}`)
		case "/v1/logs":
			w.WriteHeader(http.StatusAccepted)
		default:
			http.NotFound(w, r)
		}
	}))
	defer api.Close()
	log := new(Output)
	fmt.Fprintln(log, `{"msg":"assay serves","rest":"http://of-the-run-before/api"}`)
	s, err := Start(t.Context(), Config{
		Binary: os.Args[0], Dir: t.TempDir(), Log: log, Environ: []string{childEnv + "=serve " + api.Listener.Addr().String()},
	})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, api.URL, s.Root)
	require.Equal(t, api.URL+"/api", s.REST)
	require.Equal(t, api.URL, s.OTLPHTTP)
	require.NoError(t, s.AwaitReady(t.Context()))

	m, err := s.Metrics(t.Context())
	require.NoError(t, err)
	require.Equal(t, Metrics{`a{b="c d"}`: 2, `a{b="e"}`: 3.5, "ab": 1000}, m)
	sum, found := m.Sum("a")
	require.True(t, found)
	require.Equal(t, 5.5, sum)
	_, found = m.Sum("b")
	require.False(t, found)

	all, err := List[int](t.Context(), s.Client, s.REST, "secret", "/v1/list?sort=x")
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 3}, all)
	require.Equal(t, "Bearer secret", asked.Get("Authorization"))
	_, err = Get(t.Context(), s.Client, s.REST+"/nothing", "")
	require.ErrorContains(t, err, "status 404")

	for want, headers := range map[string][]string{"application/x-protobuf": nil, "application/json": {"Content-Type", "application/json"}} {
		r, err := Post(t.Context(), s.Client, s.OTLPHTTP, Key, wire.Logs, []byte("x"), headers...)
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, r.Status)
		require.Equal(t, []string{want}, asked["Content-Type"])
	}

	if runtime.GOOS == "linux" {
		resident, peak, err := s.Memory()
		require.NoError(t, err)
		require.Positive(t, resident)
		require.GreaterOrEqual(t, peak, resident)
		_, err = s.CPU()
		require.NoError(t, err)
	}
	require.True(t, s.Running())
	require.NoError(t, s.Stop())
	require.False(t, s.Running())
	require.Contains(t, log.String(), "something else")
}

func TestServerThatEnds(t *testing.T) {
	_, err := Start(t.Context(), Config{Binary: os.Args[0], Dir: t.TempDir(), Environ: []string{childEnv + "=fail"}})
	require.ErrorContains(t, err, "exit status 3\nno reason")
	r, err := Run(t.Context(), os.Args[0], t.TempDir(), []string{childEnv + "=fail"}, "")
	require.NoError(t, err)
	require.Equal(t, Result{Code: 3, Stderr: "no reason\n"}, r)
	_, err = Run(t.Context(), filepath.Join(t.TempDir(), "nothing"), t.TempDir(), nil, "")
	require.Error(t, err)
}

// TestEndsWithItsParent kills a process and checks that its child process ends.
func TestEndsWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with its parent")
	}
	var out Output
	cmd := child(t.Context(), "parent")
	cmd.Stdout = &out
	p, err := StartProcess("parent", cmd, nil)
	require.NoError(t, err)
	defer p.Kill()
	var pid int
	require.NoError(t, Await(t.Context(), Limit, PollInterval, func() (err error) {
		pid, err = strconv.Atoi(strings.TrimSpace(out.String()))
		return err
	}))
	used, err := TreeCPU(p.PID())
	require.NoError(t, err)
	require.GreaterOrEqual(t, used, time.Duration(0))
	require.NoError(t, syscall.Kill(pid, 0))
	p.Kill()
	require.NoError(t, Await(t.Context(), Limit, PollInterval, func() error {
		if state, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat")); err == nil && !strings.Contains(string(state), ") Z ") {
			return errors.New("it lives")
		}
		return nil
	}))
}

func TestAwait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	require.NoError(t, Await(ctx, Limit, time.Nanosecond, func() error {
		if n++; n < 3 {
			return errors.New("not yet")
		}
		return nil
	}))
	cancel()
	require.EqualError(t, Await(ctx, Limit, time.Hour, func() error { return errors.New("the last") }), "the last")
	require.EqualError(t, Await(t.Context(), time.Nanosecond, time.Hour, func() error { return errors.New("too late") }), "too late")
}

func TestBinary(t *testing.T) {
	t.Setenv(BinaryEnv, "bin/assay")
	_, err := find(BinaryEnv, "")
	require.ErrorContains(t, err, "not an absolute path")
	t.Setenv(BinaryEnv, "/bin/assay")
	path, err := find(BinaryEnv, "")
	require.NoError(t, err)
	require.Equal(t, "/bin/assay", path)
	root, err := Root()
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "Makefile"))
}
