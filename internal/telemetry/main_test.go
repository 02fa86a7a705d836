// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

func TestMain(m *testing.M) {
	for _, v := range os.Environ() { // variables of the developer's environment
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// start starts a Telemetry that logs to w as JSON, and shuts it down at the end of the test.
func start(t testing.TB, w io.Writer) *Telemetry {
	t.Helper()
	own, err := Start(t.Context(), Config{Version: "1.2.3", Log: w, LogFormat: "json", LogLevel: "info"})
	require.NoError(t, err)
	t.Cleanup(func() { own.Shutdown(context.Background()) })
	return own
}

// startTraced is like start and records the spans.
func startTraced(t testing.TB, options ...sdktrace.TracerProviderOption) (*Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	own, spans := start(t, io.Discard), tracetest.NewSpanRecorder()
	own.tracer = sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(spans))...).Tracer(scope)
	return own, spans
}

// output collects the output of several goroutines.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
