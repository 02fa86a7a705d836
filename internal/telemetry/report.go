// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// headers is how the names of the variables end that hold credentials.
const headers = "_HEADERS"

const (
	reportInterval = time.Minute // between reports of the same kind
	maxReports     = 64          // kinds that are told apart
)

// reporter logs what the OpenTelemetry SDK has to say, each kind of it once a
// minute, to a log that is not exported: a failed export must not make more to export.
type reporter struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	told map[string]*told
}

// told is when something was logged, and how often it was not since then.
type told struct {
	at   time.Time
	left int
}

func newReporter(log *slog.Logger, now func() time.Time) *reporter {
	return &reporter{log: slog.New(cleaned{log.Handler()}), now: now, told: make(map[string]*told)}
}

// Handle reports an error of the SDK.
func (r *reporter) Handle(err error) {
	if err == nil {
		return
	}
	text := err.Error()
	if i := strings.Index(text, headers); i >= 0 {
		text = text[:i+len(headers)] // what follows is credentials
	}
	kind, _, _ := strings.Cut(text, ":") // what follows may differ each time
	r.tell(kind, "error", text)
}

// warn reports what was found in the configuration.
func (r *reporter) warn(msg string, args ...any) {
	r.tell(msg, append([]any{"report", msg}, args...)...)
}

// tell logs something of a kind, when it is due.
func (r *reporter) tell(kind string, args ...any) {
	left, ok := r.due(kind)
	if !ok {
		return
	}
	if left > 0 {
		args = append(args, "left_out", left)
	}
	r.log.Warn("OpenTelemetry reports a problem", args...)
}

// due tells whether to log something of a kind now, and how often that was left
// out before.
func (r *reporter) due(kind string) (left int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	t := r.told[kind]
	switch {
	case t == nil:
		if len(r.told) == maxReports {
			clear(r.told)
		}
		t = new(told)
		r.told[kind] = t
	case now.Sub(t.at) < reportInterval:
		t.left++
		return 0, false
	}
	left, t.at, t.left = t.left, now, 0
	return left, true
}

// The methods of a logr.LogSink, for what the SDK logs. Values that come with
// an error are left out: they are of variables that may hold credentials.

// Init does nothing.
func (r *reporter) Init(logr.RuntimeInfo) {}

// Enabled tells whether the SDK should log at a level, of which 1 is a warning.
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
