// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
)

func TestReporter(t *testing.T) {
	var b bytes.Buffer
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	r := newReporter(slog.New(slog.NewJSONHandler(&b, nil)), func() time.Time { return now })

	r.Handle(nil)
	require.Empty(t, b.String())
	for i := range 5 {
		r.Handle(fmt.Errorf("traces export: connection %d refused", i))
	}
	line := lastLine(t, &b)
	require.Equal(t, "WARN", line["level"])
	require.Equal(t, "traces export: connection 0 refused", line["error"])
	require.NotContains(t, line, "left_out")

	r.Handle(errors.New("logs export: connection refused"))
	require.Equal(t, "logs export: connection refused", lastLine(t, &b)["error"], "another kind")
	now = now.Add(reportInterval)
	r.Handle(errors.New("traces export: still"))
	line = lastLine(t, &b)
	require.Equal(t, "traces export: still", line["error"])
	require.Equal(t, 4.0, line["left_out"])

	for i := range 10 * maxReports {
		r.Handle(fmt.Errorf("kind %d", i))
	}
	require.LessOrEqual(t, len(r.reported), maxReports)
}

// TestReporterAsLogger makes the SDK log a variable that holds a credential.
func TestReporterAsLogger(t *testing.T) {
	var b bytes.Buffer
	sdk := logr.New(newReporter(slog.New(slog.NewJSONHandler(&b, nil)), time.Now))
	sdk.Error(errors.New("missing '="), "parse headers", "input", "Bearer-abcdef")
	line := lastLine(t, &b)
	require.Equal(t, "parse headers", line["report"])
	require.Equal(t, "missing '=", line["error"])
	require.NotContains(t, fmt.Sprint(line), "abcdef")

	sdk.V(1).WithName("a").WithValues("b", 1).Info("dropped log records", "dropped", 3)
	require.Equal(t, 3.0, lastLine(t, &b)["dropped"])
	sdk.V(4).Info("created")
	require.Empty(t, b.String())
	sdk.Error(errors.New(`parse "http://me:hunter2@x:y": invalid port`), "parse url")
	require.False(t, strings.Contains(b.String(), "hunter2"), b.String())
}
