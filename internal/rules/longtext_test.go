// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay/internal/delta"
	. "assay/internal/rules/rulestest"
	"assay/internal/wire/wiretest"
)

// longTexts returns requests with a text in each place.
func longTexts(text string) map[string]Request {
	body := func(set func(*logspb.LogRecord)) Request { return LogsRequest(Logs(Service("a"), Log("x", set))) }
	spanOf := func(set func(*tracepb.Span)) Request { return Traces(Spans(Service("a"), Span(1, 1, 0, set))) }
	metric := func(set func(*metricspb.Metric)) Request {
		m := Gauge("m", "s", Point(T0))
		set(m)
		return MetricsRequest(Metrics(Service("a"), m))
	}
	scope := Logs(Service("a"), Log("x"))
	scope.ScopeLogs[0].Scope = &commonpb.InstrumentationScope{Name: text}
	return map[string]Request{
		"body":               LogsRequest(Logs(Service("a"), Log(text))),
		"event name":         body(func(r *logspb.LogRecord) { r.EventName = text }),
		"attribute":          body(func(r *logspb.LogRecord) { r.Attributes = Attrs("k", text) }),
		"key":                body(func(r *logspb.LogRecord) { r.Attributes = Attrs(text, "v") }),
		"nested":             body(func(r *logspb.LogRecord) { r.Attributes = Attrs("k", []any{Attrs("k", text)}) }),
		"after a flag":       body(func(r *logspb.LogRecord) { r.Attributes = Attrs("k", []any{"--password", text}) }),
		"resource attribute": LogsRequest(Logs(Service("a", "k", text), Log("x"))),
		"resource key":       LogsRequest(Logs(Service("a", text, "v"), Log("x"))),
		"scope name":         LogsRequest(scope),
		"span name":          spanOf(func(s *tracepb.Span) { s.Name = text }),
		"status":             spanOf(func(s *tracepb.Span) { s.Status = &tracepb.Status{Message: text} }),
		"metric name":        metric(func(m *metricspb.Metric) { m.Name = text }),
		"description":        metric(func(m *metricspb.Metric) { m.Description = text }),
		"unit":               metric(func(m *metricspb.Metric) { m.Unit = text }),
	}
}

// TestLongTextEnds: the search of a long text ends with the request, wherever the text is. What was not searched to the
// end leaves nothing in the caches for later requests.
func TestLongTextEnds(t *testing.T) {
	texts := longTexts(strings.Repeat("x:", 128<<10) + " a@shop.example.com")
	for name, q := range longTexts(`"password":"` + strings.Repeat("x:", 128<<10)) {
		texts[name+" with a long secret"] = q
	}
	for name, q := range texts {
		t.Run(name, func(t *testing.T) {
			evaluate := func(ctx context.Context, e *Evaluator) (*delta.Delta, error) {
				b, d := new(Batch), new(delta.Delta)
				err := e.Evaluate(ctx, q.Signal, q.Body, input(), b)
				if err == nil {
					b.MergeInto(d)
				}
				return d, err
			}
			all := &wiretest.EndingContext{Context: t.Context(), Checks: 1 << 30}
			want, err := evaluate(all, NewEvaluator(Config{}))
			require.NoError(t, err)
			calls := 1<<30 - all.Checks
			require.Greater(t, calls, len(q.Body)/(64<<10))
			e := NewEvaluator(Config{})
			for at := range calls {
				_, err := evaluate(&wiretest.EndingContext{Context: t.Context(), Checks: at}, NewEvaluator(Config{}))
				require.ErrorIs(t, err, context.Canceled, "after %d of %d", at, calls)
				if _, err := evaluate(&wiretest.EndingContext{Context: t.Context(), Checks: at}, e); err != nil {
					require.ErrorIs(t, err, context.Canceled)
				}
			}
			got, err := evaluate(t.Context(), e)
			require.NoError(t, err)
			for _, d := range []*delta.Delta{want, got} {
				d.Remember = nil // hashes with the key of the process
			}
			require.Equal(t, want.Organizations, got.Organizations)
		})
	}
}

// TestTextLookups: a text that takes long to search costs more steps than others.
func TestTextLookups(t *testing.T) {
	const size = 128 << 10
	for _, s := range []string{"cookie=;", "token: ***", "cpf=", "111.444.777-"} {
		text := strings.Repeat(s, size/len(s))
		for name, q := range longTexts(text) {
			e := NewEvaluator(Config{})
			require.NoError(t, e.Evaluate(t.Context(), q.Signal, q.Body, input(), new(Batch)), name)
			require.Greater(t, e.Steps(), uint64(size/bytesPerStep+size/8), "%s in %s", s, name)
		}
	}
}
