// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"context"
	"errors"
	"log/slog"
)

// quiet passes the log of the TSDB on: its news to debug, its troubles to warn.
type quiet struct{ next slog.Handler }

func (quiet) level(l slog.Level) slog.Level {
	if l < slog.LevelWarn {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return q.next.Enabled(ctx, q.level(l))
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = q.level(r.Level)
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && errors.Is(err, context.Canceled) {
			r.Level = slog.LevelDebug // a compaction that Close interrupted
		}
		return true
	})
	if !q.next.Enabled(ctx, r.Level) {
		return nil
	}
	return q.next.Handle(ctx, r)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.next.WithAttrs(attrs)} }

func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.next.WithGroup(name)} }
