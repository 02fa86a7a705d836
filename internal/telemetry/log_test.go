// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"assay/internal/safetext"
)

func TestLogger(t *testing.T) {
	var b bytes.Buffer
	logger := func(format, level string) *slog.Logger {
		own, err := Start(t.Context(), Config{Version: "1.2.3", Log: &b, LogFormat: format, LogLevel: level})
		require.NoError(t, err)
		return own.Logger()
	}
	l := logger("json", "warn")
	l.Info("left out")
	l.Warn("message", "n", 3)
	line := lastLine(t, &b)
	require.Equal(t, "message", line["msg"])
	require.Equal(t, "WARN", line["level"])
	require.Equal(t, 3.0, line["n"])
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$`, line["time"])
	require.NotContains(t, line, "trace_id")

	l = logger("text", "debug")
	l.Debug("message", "time", "mine")
	require.Regexp(t, `^time=\S+Z level=DEBUG msg=message time=mine\n$`, b.String())

	for _, c := range [][2]string{{"xml", "info"}, {"text", "loud"}, {"", ""}} {
		_, err := Start(t.Context(), Config{Version: "1.2.3", Log: &b, LogFormat: c[0], LogLevel: c[1]})
		require.Error(t, err, c)
	}
}

// TestLogHidesNothing checks that text of a client or sender in the log cannot control a terminal or be
// displayed differently from its content.
func TestLogHidesNothing(t *testing.T) {
	const hostile = "\x1b[2J\u009b31m\u202eevil\u2066\ufeff\U000e0041\u2028\x7f\n"
	for _, format := range []string{"json", "text"} {
		var b bytes.Buffer
		own, err := Start(t.Context(), Config{Version: "1.2.3", Log: &b, LogFormat: format, LogLevel: "info"})
		require.NoError(t, err)
		own.Logger().Info(hostile, "path", hostile, "error", errors.New(hostile))
		for _, r := range strings.TrimSuffix(b.String(), "\n") {
			require.False(t, safetext.Hidden(r), "%U in %q", r, b.String())
		}
		if format == "json" {
			require.Equal(t, hostile, lastLine(t, &b)["path"])
		}
	}
}

// lastLine parses the only line of a JSON log and clears the log.
func lastLine(t *testing.T, b *bytes.Buffer) map[string]any {
	t.Helper()
	var line map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &line), b.String())
	b.Reset()
	return line
}

func TestLogIsCorrelated(t *testing.T) {
	var b bytes.Buffer
	l := start(t, &b).Logger()
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	l.InfoContext(ctx, "within a span")
	require.Equal(t, "01000000000000000000000000000000", lastLine(t, &b)["trace_id"])
	l.With("a", 1).InfoContext(ctx, "knows its own", "trace_id", "x")
	line := lastLine(t, &b)
	require.Equal(t, "x", line["trace_id"])
	require.Equal(t, 1.0, line["a"])
}

// secretive is a value whose log form is a secret.
type secretive struct{ s string }

func (s secretive) LogValue() slog.Value { return slog.StringValue(s.s) }

func TestLogIsClean(t *testing.T) {
	const mail = "someone@example.com"
	cause := errors.New("plain")
	for name, c := range map[string]struct {
		attr any
		want any
	}{
		"string":        {slog.String("x", "from "+mail), "from [redacted]"},
		"error":         {slog.Any("x", fmt.Errorf("no such user: %s", mail)), "no such user: [redacted]"},
		"clean error":   {slog.Any("x", cause), "plain"},
		"LogValuer":     {slog.Any("x", secretive{mail}), "[redacted]"},
		"list":          {slog.Any("x", []string{"a", mail}), "[a [redacted]]"},
		"clean list":    {slog.Any("x", []string{"a", "b"}), []any{"a", "b"}},
		"group":         {slog.Group("x", "a", mail, "b", 1), map[string]any{"a": "[redacted]", "b": 1.0}},
		"by its name":   {slog.Group("x", "password", "correct horse"), map[string]any{"password": "[redacted]"}},
		"no UTF-8":      {slog.String("x", "a\xffb"), "a\uFFFDb"},
		"number":        {slog.Int("x", 5), 5.0},
		"long error":    {slog.Any("x", errors.New(strings.Repeat("x", 40_000))), strings.Repeat("x", maxText) + "…"},
		"long string":   {slog.String("x", strings.Repeat("x", 40_000)), strings.Repeat("x", maxText) + "…"},
		"URL with user": {slog.String("x", "http://me:hunter2@host/path"), "http://me:[redacted]@host/path"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			l := start(t, &b).Logger()
			l.Info("m", c.attr)
			require.Equal(t, c.want, lastLine(t, &b)["x"])
			l.With(c.attr).Info("m")
			require.Equal(t, c.want, lastLine(t, &b)["x"])
			l.WithGroup("g").Info("m", c.attr)
			require.Equal(t, c.want, lastLine(t, &b)["g"].(map[string]any)["x"])
			plain, err := NewLogger(&b, "json", "info")
			require.NoError(t, err)
			plain.Info("m", c.attr)
			require.Equal(t, c.want, lastLine(t, &b)["x"])
			l.Info("is " + mail)
			require.Equal(t, "is [redacted]", lastLine(t, &b)["msg"])
		})
	}

	var got slog.Record
	h := cleaned{keep{&got}}
	require.NoError(t, h.Handle(t.Context(), record("m", slog.Any("error", cause))))
	got.Attrs(func(a slog.Attr) bool {
		require.Equal(t, cause, a.Value.Any(), "a handler sees the error itself")
		return true
	})
}

func record(msg string, attrs ...slog.Attr) slog.Record {
	var r slog.Record
	r.Message = msg
	r.AddAttrs(attrs...)
	return r
}

// keep keeps the last record.
type keep struct{ r *slog.Record }

func (k keep) Enabled(context.Context, slog.Level) bool      { return true }
func (k keep) Handle(_ context.Context, r slog.Record) error { *k.r = r; return nil }
func (k keep) WithAttrs([]slog.Attr) slog.Handler            { return k }
func (k keep) WithGroup(string) slog.Handler                 { return k }
