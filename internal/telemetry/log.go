// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"assay/internal/lists"
	"assay/internal/requestid"
	"assay/internal/rules/sensitive"
	"assay/internal/safetext"
)

// newHandler returns a handler that writes to w in the format "text" or "json", with the minimum level
// "debug", "info", "warn" or "error". Times are UTC.
func newHandler(w io.Writer, format, level string) (slog.Handler, slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, l, fmt.Errorf("log level %q is not one of debug, info, warn and error", level)
	}
	opts := &slog.HandlerOptions{Level: l, ReplaceAttr: utc}
	switch format {
	case "text":
		return slog.NewTextHandler(w, opts), l, nil
	case "json":
		return slog.NewJSONHandler(safetext.JSONWriter{To: w}, opts), l, nil
	default:
		return nil, l, fmt.Errorf("log format %q is not one of text and json", format)
	}
}

// NewLogger returns the logger of a program without telemetry of its own. It has the parameters of Config.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	h, _, err := newHandler(w, format, level)
	if err != nil {
		return nil, err
	}
	return slog.New(cleaned{h}), nil
}

func utc(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		a.Value = slog.TimeValue(a.Value.Time().UTC().Truncate(time.Millisecond))
	}
	return a
}

// leveled is a handler with a minimum level.
type leveled struct {
	slog.Handler
	level slog.Level
}

func (h leveled) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.level}
}

func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level}
}

// Log attributes for the ids of a request.
const (
	traceIDKey   = "trace_id"
	requestIDKey = "request_id"
)

// correlated adds the trace id of the current span to records without one.
type correlated struct{ slog.Handler }

func (h correlated) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		has := false
		r.Attrs(func(a slog.Attr) bool {
			has = a.Key == traceIDKey
			return !has
		})
		if !has {
			r = r.Clone()
			r.AddAttrs(slog.String(traceIDKey, span.TraceID().String()))
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h correlated) WithAttrs(attrs []slog.Attr) slog.Handler {
	return correlated{h.Handler.WithAttrs(attrs)}
}

func (h correlated) WithGroup(name string) slog.Handler {
	return correlated{h.Handler.WithGroup(name)}
}

// maxText is the maximum length of a text in a record, in bytes. Errors of net/http quote up to 64 KiB of a response.
// The stack of a panic begins with its cause.
const maxText = 4 << 10

// cleaned removes sensitive data from records, because errors may quote external input, and cuts long texts. It replaces
// invalid UTF-8, which OTLP does not support, and adds the request id, which is external input too.
type cleaned struct{ slog.Handler }

func (h cleaned) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, clean("", r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(cleanAttr(a))
		return true
	})
	if id := requestid.FromContext(ctx); id != "" {
		out.AddAttrs(slog.String(requestIDKey, clean(requestIDKey, id)))
	}
	return h.Handler.Handle(ctx, out)
}

func (h cleaned) WithAttrs(attrs []slog.Attr) slog.Handler {
	return cleaned{h.Handler.WithAttrs(cleanAttrs(attrs))}
}

func (h cleaned) WithGroup(name string) slog.Handler { return cleaned{h.Handler.WithGroup(name)} }

func cleanAttrs(attrs []slog.Attr) []slog.Attr {
	return lists.Map(attrs, cleanAttr)
}

func cleanAttr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, clean(a.Key, v.String()))
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(cleanAttrs(v.Group())...)}
	case slog.KindAny:
		// Only a value that needs cleaning loses its type, which handlers inspect.
		text := fmt.Sprint(v.Any())
		if c := clean(a.Key, text); c != text {
			return slog.String(a.Key, c)
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// clean returns text as valid UTF-8 without sensitive data under key, which may be "". A long text is cut.
func clean(key, s string) string {
	return safetext.Cut(sensitive.CleanNamed([]byte(key), []byte(s)), maxText)
}
