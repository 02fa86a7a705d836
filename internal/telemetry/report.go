// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// headers is the suffix of variables that hold credentials.
const headers = "_HEADERS"

const (
	reportInterval = time.Minute // between reports of the same kind
	maxReports     = 64          // number of kinds to distinguish
)

// reporter logs messages of the OpenTelemetry SDK, each kind at most once a minute. Its log is not exported:
// a failed export must not produce more telemetry.
type reporter struct {
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex
	reported map[string]*reported
}

// reported is the time of the last report and the number of suppressed reports since then.
type reported struct {
	at   time.Time
	left int
}

func newReporter(log *slog.Logger, now func() time.Time) *reporter {
	return &reporter{log: slog.New(cleaned{log.Handler()}), now: now, reported: make(map[string]*reported)}
}

// Handle reports an error of the SDK.
func (r *reporter) Handle(err error) {
	if err == nil {
		return
	}
	text := err.Error()
	if i := strings.Index(text, headers); i >= 0 {
		text = text[:i+len(headers)] // the rest is credentials
	}
	kind, _, _ := strings.Cut(text, ":") // the rest may differ between reports of a kind
	r.logLimited(kind, "error", text)
}

// warn reports a problem of the configuration.
func (r *reporter) warn(msg string, args ...any) {
	r.logLimited(msg, append([]any{"report", msg}, args...)...)
}

// logLimited logs a report unless its kind was logged recently.
func (r *reporter) logLimited(kind string, args ...any) {
	left, ok := r.due(kind)
	if !ok {
		return
	}
	if left > 0 {
		args = append(args, "left_out", left)
	}
	r.log.Warn("OpenTelemetry reports a problem", args...)
}

// due reports whether a report of a kind is due, and returns the number of suppressed reports before it.
func (r *reporter) due(kind string) (left int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	t := r.reported[kind]
	switch {
	case t == nil:
		if len(r.reported) == maxReports {
			clear(r.reported)
		}
		t = new(reported)
		r.reported[kind] = t
	case now.Sub(t.at) < reportInterval:
		t.left++
		return 0, false
	}
	left, t.at, t.left = t.left, now, 0
	return left, true
}

// The methods of a logr.LogSink for the log of the SDK. Values of errors are dropped: they are from variables
// that may hold credentials.

// Init does nothing.
func (r *reporter) Init(logr.RuntimeInfo) {}

// Enabled reports whether the SDK logs at a level. Level 1 is a warning.
func (r *reporter) Enabled(level int) bool { return level <= 1 }

// Info reports a warning.
func (r *reporter) Info(_ int, msg string, args ...any) { r.warn(msg, args...) }

// Error reports an error.
func (r *reporter) Error(err error, msg string, _ ...any) {
	r.warn(msg, "error", err)
}

// WithValues returns the same sink.
func (r *reporter) WithValues(...any) logr.LogSink { return r }

// WithName returns the same sink.
func (r *reporter) WithName(string) logr.LogSink { return r }
