// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/llm"

	"github.com/stretchr/testify/require"

	"assay"
)

const answer = "## Why it matters\n\nTraces break."

// memory is a store in memory, with the failures that a test wants.
type memory struct {
	mu                sync.Mutex
	kept              map[string]kept // by insight
	taken             map[string]int  // by organization and day
	find, save, count error
}

type kept struct {
	key     assay.SummaryKey
	summary assay.InsightSummary
}

func newMemory() *memory { return &memory{kept: map[string]kept{}, taken: map[string]int{}} }

func (m *memory) FindSummary(ctx context.Context, k assay.SummaryKey) (*assay.InsightSummary, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(ctx.Err(), m.find); err != nil {
		return nil, err
	}
	found, ok := m.kept[k.InsightID]
	if !ok || found.key != k {
		return nil, assay.Errorf(assay.CodeNotFound, "no such summary")
	}
	return &found.summary, nil
}

func (m *memory) SaveSummary(ctx context.Context, k assay.SummaryKey, s *assay.InsightSummary) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(ctx.Err(), m.save); err != nil {
		return err
	}
	m.kept[k.InsightID] = kept{k, *s}
	return nil
}

func (m *memory) TakeSummaryCall(_ context.Context, organizationID string, at time.Time, limit int) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	day := organizationID + at.UTC().Format(time.DateOnly)
	if m.count != nil || m.taken[day] >= limit {
		return false, m.count
	}
	m.taken[day]++
	return true, nil
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.kept)
}

// model is a provider that does what a script says.
type model struct {
	name string
	mu   sync.Mutex
	// script holds what the next calls give: a text, an error, or a function of
	// the context. Without one it gives answer.
	script []any
	calls  []time.Time
	busy   int
	most   int // calls at a time
}

func (m *model) Model() string { return m.name }

func (m *model) Write(ctx context.Context, system, document string) (string, error) {
	m.mu.Lock()
	m.calls = append(m.calls, time.Now())
	m.busy++
	m.most = max(m.most, m.busy)
	var next any = answer
	if len(m.script) > 0 {
		next, m.script = m.script[0], m.script[1:]
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.busy--
		m.mu.Unlock()
	}()
	switch next := next.(type) {
	case func(context.Context) (string, error):
		return next(ctx)
	case error:
		return "", next
	default:
		if system == "" || document == "" {
			return "", errors.New("an empty prompt")
		}
		return next.(string), nil
	}
}

func hang(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func status(code int, after ...time.Duration) error {
	e := &llm.StatusError{Status: code}
	if len(after) > 0 {
		e.RetryAfter = after[0]
	}
	return e
}

// fixture is a Summarizer with its surroundings, in a bubble of synctest: its clock
// stands still while anything runs.
type fixture struct {
	*Summarizer
	t     *testing.T
	store *memory
	model *model
	log   bytes.Buffer

	mu       sync.Mutex
	outcomes map[Outcome]int
	called   map[CallOutcome]int
}

func newFixture(t *testing.T, change ...func(*Config)) *fixture {
	f := &fixture{t: t, store: newMemory(), model: &model{name: "m"}, outcomes: map[Outcome]int{}, called: map[CallOutcome]int{}}
	c := Config{
		Store: f.store, Provider: f.model,
		Logger: slog.New(slog.NewTextHandler(&f.log, nil)),
		Observe: func(o Outcome) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.outcomes[o]++
		},
		ObserveCall: func(o CallOutcome, _ time.Duration) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.called[o]++
		},
	}
	for _, ch := range change {
		ch(&c)
	}
	f.Summarizer = New(c)
	t.Cleanup(f.Close)
	return f
}

func (f *fixture) script(next ...any) {
	f.model.mu.Lock()
	defer f.model.mu.Unlock()
	f.model.script, f.model.calls = next, nil
}

func (f *fixture) calls() []time.Time {
	f.model.mu.Lock()
	defer f.model.mu.Unlock()
	return slices.Clone(f.model.calls)
}

// unavailable asks for a summary that cannot be had and returns the time to wait.
func (f *fixture) unavailable(i *assay.Insight) time.Duration {
	f.t.Helper()
	got, err := f.Summarize(f.t.Context(), i)
	require.Nil(f.t, got)
	require.Equal(f.t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)
	var retry interface{ RetryAfter() time.Duration }
	require.ErrorAs(f.t, err, &retry)
	return retry.RetryAfter()
}

// numbered returns insights that differ.
func numbered(n int) *assay.Insight {
	return insight(func(i *assay.Insight) { i.ID = fmt.Sprintf("00000000-0000-4000-8000-%012d", n) })
}

func TestSummarize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.script("<b>## no heading</b>\n\n" + answer + "\n\n[x](https://evil.example)")
		first, err := f.Summarize(t.Context(), insight())
		require.NoError(t, err)
		require.Equal(t, &assay.InsightSummary{
			InsightID: insight().ID, Content: "\\## no heading\n\n" + answer + "\n\nx", Model: "m", GeneratedAt: time.Now().UTC(),
		}, first)
		f.script(errors.New("must not be asked"))
		time.Sleep(time.Hour)
		for range 3 {
			again, err := f.Summarize(t.Context(), insight())
			require.NoError(t, err)
			want := *first
			want.Cached = true
			require.Equal(t, &want, again)
		}
		require.Empty(t, f.calls())
		require.Equal(t, map[Outcome]int{Generated: 1, Cached: 3}, f.outcomes)
		require.Equal(t, map[CallOutcome]int{CallOK: 1}, f.called)

		// What the prompt shows, or who writes, makes it anew.
		f.script()
		changed := insight(func(i *assay.Insight) { i.Service.Version = "2.0.0" })
		got, err := f.Summarize(t.Context(), changed)
		require.NoError(t, err)
		require.False(t, got.Cached)
		other := New(Config{Store: f.store, Provider: &model{name: "n"}})
		defer other.Close()
		got, err = other.Summarize(t.Context(), changed)
		require.NoError(t, err)
		require.False(t, got.Cached)
		require.Equal(t, "n", got.Model)
		require.Equal(t, 1, f.store.len(), "one for each insight")
	})
}

func TestCachedSummary(t *testing.T) {
	f := newFixture(t)
	_, err := f.CachedSummary(t.Context(), insight())
	require.Equal(t, assay.CodeNotFound, assay.ErrorCode(err))
	unknown := insight(func(i *assay.Insight) { i.Type = "of_another_version" })
	_, err = f.CachedSummary(t.Context(), unknown)
	require.Equal(t, assay.CodeNotFound, assay.ErrorCode(err))
	require.Empty(t, f.calls(), "nothing is written")

	written, err := f.Summarize(t.Context(), insight())
	require.NoError(t, err)
	found, err := f.CachedSummary(t.Context(), insight())
	require.NoError(t, err)
	require.Equal(t, written.Content, found.Content)
	require.True(t, found.Cached)
	require.Equal(t, map[Outcome]int{Generated: 1}, f.outcomes)
}

// TestOneCall: callers at the same time share one call, and get what is stored.
func TestOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.script(func(ctx context.Context) (string, error) { return answer, sleep(ctx, time.Second) })
		var wg sync.WaitGroup
		cached := make(chan bool, 100)
		for range cap(cached) {
			wg.Go(func() {
				got, err := f.Summarize(t.Context(), insight())
				if err != nil || got.Content != answer {
					t.Error(got, err)
					return
				}
				if f.store.len() != 1 {
					t.Error("answered before it was stored")
				}
				got.Content = "theirs" // nobody else's
				cached <- got.Cached
			})
		}
		wg.Wait()
		close(cached)
		mine := 0
		for c := range cached {
			if !c {
				mine++
			}
		}
		require.Equal(t, 1, mine)
		require.Len(t, f.calls(), 1)
		require.Equal(t, map[Outcome]int{Generated: 1, Shared: 99}, f.outcomes)
		require.Zero(t, f.begun.InUse())
	})
}

// TestCallersLeave: the one who began a generation may leave.
func TestCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.script(func(ctx context.Context) (string, error) { return answer, sleep(ctx, 10*time.Second) })
		ctx, leave := context.WithCancel(t.Context())
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := f.Summarize(ctx, insight())
			if !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
				t.Error(err, time.Since(began))
			}
		})
		synctest.Wait()
		wg.Go(func() {
			got, err := f.Summarize(t.Context(), insight())
			if err != nil || got.Content != answer {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		leave()
		wg.Wait()
		require.Len(t, f.calls(), 1)

		// When all leave it is still written.
		f.script(func(ctx context.Context) (string, error) { return answer, sleep(ctx, 10*time.Second) })
		ctx, leave = context.WithTimeout(t.Context(), time.Second)
		defer leave()
		_, err := f.Summarize(ctx, numbered(2))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		got, err := f.Summarize(t.Context(), numbered(2))
		require.NoError(t, err)
		require.True(t, got.Cached)
		require.Len(t, f.calls(), 1)
		require.Equal(t, map[Outcome]int{Canceled: 2, Shared: 1, Cached: 1}, f.outcomes)
	})
}

func TestRetries(t *testing.T) {
	broken := &llm.BrokenError{Err: errors.New("connection reset")}
	for name, tt := range map[string]struct {
		script []any
		calls  int
		least  time.Duration // from the first call to the end
		most   time.Duration
		after  time.Duration // to wait; 0: it succeeds
	}{
		"at once":           {[]any{answer}, 1, 0, 0, 0},
		"second":            {[]any{status(503), answer}, 2, 250 * time.Millisecond, 750 * time.Millisecond, 0},
		"third":             {[]any{broken, status(500), answer}, 3, 750 * time.Millisecond, 2250 * time.Millisecond, 0},
		"told to wait":      {[]any{status(429, 7*time.Second), status(503, 2*time.Second), answer}, 3, 9 * time.Second, 9 * time.Second, 0},
		"three times":       {[]any{status(429), broken, status(529), answer}, 3, 750 * time.Millisecond, 2250 * time.Millisecond, 10 * time.Second},
		"told to wait long": {[]any{status(429, 40*time.Second), answer}, 1, 0, 0, 40 * time.Second},
		"too late":          {[]any{status(503, 20*time.Second), status(503, 11*time.Second), answer}, 2, 20 * time.Second, 20 * time.Second, 11 * time.Second},
		"wrong key":         {[]any{status(401), answer}, 1, 0, 0, 10 * time.Second},
		"unknown model":     {[]any{status(404), answer}, 1, 0, 0, 10 * time.Second},
		"redirect":          {[]any{status(307), answer}, 1, 0, 0, 10 * time.Second},
		"unusable":          {[]any{&llm.UnusableError{What: "a refusal"}, answer}, 1, 0, 0, 10 * time.Second},
		"no text":           {[]any{"<script>x</script>", answer}, 1, 0, 0, 10 * time.Second},
		"hangs":             {[]any{hang, answer}, 1, 30 * time.Second, 30 * time.Second, 10 * time.Second},
		"hangs at last":     {[]any{status(500), hang, answer}, 2, 30 * time.Second, 30 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.script(tt.script...)
				began := time.Now()
				if tt.after == 0 {
					got, err := f.Summarize(t.Context(), insight())
					require.NoError(t, err)
					require.Equal(t, answer, got.Content)
				} else {
					require.Equal(t, tt.after, f.unavailable(insight()))
					require.Zero(t, f.store.len(), "a failure was stored")
				}
				took := time.Since(began) // on the bubble's clock
				require.GreaterOrEqual(t, took, tt.least)
				require.LessOrEqual(t, took, tt.most)
				require.Len(t, f.calls(), tt.calls)
				if tt.after == 0 {
					return
				}
				require.Equal(t, map[Outcome]int{Failed: 1}, f.outcomes)
				require.Contains(t, f.log.String(), "insight_id="+insight().ID)
				require.Contains(t, f.log.String(), fmt.Sprintf("attempts=%d", tt.calls))
				// The next one starts afresh.
				f.script()
				_, err := f.Summarize(t.Context(), insight())
				require.NoError(t, err)
			})
		})
	}
}

// other returns the insight as one of another organization.
func other(i *assay.Insight) *assay.Insight {
	i.OrganizationID = "00000000-0000-4000-8000-00000000000b"
	return i
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.Timeout = 2 * time.Second })
		f.script(hang)
		began := time.Now()
		f.unavailable(insight())
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Contains(t, f.log.String(), "did not answer within 2s")
		require.Equal(t, map[CallOutcome]int{CallTimeout: 1}, f.called)
	})
}

// TestAtATime: few calls at a time, half of them of one organization, and a bound on those that wait. Other
// organizations do not wait.
func TestAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		slow := func(ctx context.Context) (string, error) { return answer, sleep(ctx, time.Second) }
		f.script(slices.Repeat([]any{slow}, maxFlights+1)...)
		var wg sync.WaitGroup
		for n := range maxFlights {
			wg.Go(func() {
				if _, err := f.Summarize(t.Context(), numbered(n)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		require.Equal(t, afterBusy, f.unavailable(numbered(maxFlights)))
		began := time.Now()
		_, err := f.Summarize(t.Context(), other(insight()))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began), "its own call")
		wg.Wait()
		require.Len(t, f.calls(), maxFlights+1)
		require.Equal(t, maxCalls/2+1, f.model.most)
		require.Equal(t, map[Outcome]int{Generated: maxFlights + 1, Paused: 1}, f.outcomes)
		require.Zero(t, f.begun.InUse())

		// Those who get no turn before their time is over fail.
		f.script(slices.Repeat([]any{hang}, maxCalls+1)...)
		for n := range maxCalls + 1 {
			wg.Go(func() {
				_, err := f.Summarize(t.Context(), numbered(1000+n))
				if assay.ErrorCode(err) != assay.CodeUnavailable {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.LessOrEqual(t, len(f.calls()), maxCalls+1)
	})
}

func TestDailyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.DailyCalls = 2 })
		f.script(status(500), answer, status(400))
		_, err := f.Summarize(t.Context(), numbered(1))
		require.NoError(t, err)
		f.unavailable(numbered(2))
		midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		time.Sleep(time.Hour)
		require.Equal(t, time.Until(midnight), f.unavailable(numbered(2)), "a retry does not count, a failure does")
		require.Len(t, f.calls(), 3)
		_, err = f.Summarize(t.Context(), numbered(1))
		require.NoError(t, err, "what is written stays")
		_, err = f.Summarize(t.Context(), other(numbered(3)))
		require.NoError(t, err, "another organization has its own")
		require.Equal(t, map[Outcome]int{Generated: 2, Failed: 1, Limited: 1, Cached: 1}, f.outcomes)
		time.Sleep(time.Until(midnight))
		_, err = f.Summarize(t.Context(), numbered(2))
		require.NoError(t, err)
	})
}

// TestPromptsThatFail: what an organization has in its telemetry can make a model, or the
// content filter before it, give no summary. Others get theirs.
func TestPromptsThatFail(t *testing.T) {
	for name, failure := range map[string]any{
		"refused": &llm.UnusableError{What: "a refusal"}, "no text": "<script>x</script>", "content filter": status(400), "too long": status(413),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.script(slices.Repeat([]any{failure}, 2*maxFailures)...)
				for range 2 * maxFailures {
					require.Equal(t, afterFailure, f.unavailable(insight()))
				}
				f.script(answer)
				_, err := f.Summarize(t.Context(), numbered(2))
				require.NoError(t, err)
			})
		})
	}
}

// TestPause: a provider that fails again and again is left alone.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.DailyCalls = 100 })
		f.script(slices.Repeat([]any{status(403)}, 3)...)
		require.Equal(t, afterFailure, f.unavailable(insight()))
		require.Equal(t, afterFailure, f.unavailable(insight()))
		require.Equal(t, minPause, f.unavailable(insight()))
		require.Len(t, f.calls(), 3)
		time.Sleep(5 * time.Second)
		require.Equal(t, minPause-5*time.Second, f.unavailable(numbered(2)), "no other insight either")
		require.Len(t, f.calls(), 3)
		require.Equal(t, map[Outcome]int{Failed: 3, Paused: 1}, f.outcomes)
		require.Equal(t, []int{3}, slices.Collect(maps.Values(f.store.taken)), "what is not asked does not count")

		time.Sleep(minPause)
		f.script(status(429, time.Hour))
		require.Equal(t, time.Hour, f.unavailable(insight()), "one more is enough")
		require.Len(t, f.calls(), 1)
		require.Equal(t, maxPause, f.unavailable(insight()))
		time.Sleep(maxPause)
		f.script(answer, status(403), status(403), answer)
		for n, fails := range []bool{false, true, true, false} {
			if fails {
				f.unavailable(numbered(n))
			} else if _, err := f.Summarize(t.Context(), numbered(n)); err != nil {
				t.Error(err)
			}
		}
		require.Len(t, f.calls(), 4, "a success forgets the failures before it")
	})
}

// TestPauseOfAnOrganization: an organization whose prompts make the provider slow has a pause of its own.
func TestPauseOfAnOrganization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.script(slices.Repeat([]any{hang}, maxFailures)...)
		for n := range maxFailures {
			f.unavailable(numbered(n))
		}
		require.Equal(t, minPause, f.unavailable(numbered(maxFailures)))
		require.Equal(t, map[Outcome]int{Failed: maxFailures, Paused: 1}, f.outcomes)
		_, err := f.Summarize(t.Context(), other(insight()))
		require.NoError(t, err)
		require.Equal(t, minPause, f.unavailable(numbered(maxFailures)), "the success of another organization does not end it")
	})
}

func TestPausesAreBounded(t *testing.T) {
	var p pauses
	now := time.Now()
	for n := range maxPaused + 10 {
		p.failed(fmt.Sprint(n), now, 0)
	}
	require.Len(t, p.organizations, maxPaused)
}

func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.DailyCalls = 100 })
		away := assay.Errorf(assay.CodeUnavailable, "the store is away")
		f.store.find = away
		_, err := f.Summarize(t.Context(), insight())
		require.ErrorIs(t, err, away)
		f.store.find, f.store.count = nil, away
		_, err = f.Summarize(t.Context(), insight())
		require.ErrorIs(t, err, away)
		require.Empty(t, f.calls(), "no call that is not counted")
		f.store.count, f.store.save = nil, away
		_, err = f.Summarize(t.Context(), insight())
		require.ErrorIs(t, err, away)
		gone := assay.Errorf(assay.CodeInsightNotFound, "no such insight")
		f.store.save = gone
		_, err = f.Summarize(t.Context(), insight())
		require.ErrorIs(t, err, gone)
		require.Equal(t, map[Outcome]int{Errored: 4}, f.outcomes)
		f.store.save = nil
		_, err = f.Summarize(t.Context(), insight())
		require.NoError(t, err)
	})
}

// TestWrittenMeanwhile: what another replica stored between the first look and the
// turn is not written again.
func TestWrittenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.script(slices.Repeat([]any{func(ctx context.Context) (string, error) { return answer, sleep(ctx, time.Second) }}, maxCalls)...)
		var wg sync.WaitGroup
		for n := range maxCalls {
			wg.Go(func() { _, _ = f.Summarize(t.Context(), numbered(n)) })
		}
		synctest.Wait()
		wg.Go(func() {
			got, err := f.Summarize(t.Context(), insight())
			if err != nil || !got.Cached || got.Content != "theirs" {
				t.Error(got, err)
			}
		})
		synctest.Wait()
		p := promptOf(t, insight())
		require.NoError(t, f.store.SaveSummary(t.Context(), assay.SummaryKey{
			OrganizationID: insight().OrganizationID, InsightID: insight().ID, Evidence: p.evidence(), Model: "m", PromptVersion: PromptVersion,
		}, &assay.InsightSummary{InsightID: insight().ID, Content: "theirs", Model: "m"}))
		wg.Wait()
		require.Len(t, f.calls(), maxCalls)
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.script(hang)
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { f.unavailable(insight()) })
		synctest.Wait()
		f.Close()
		wg.Wait()
		require.Zero(t, time.Since(began))
		require.Equal(t, afterBusy, f.unavailable(insight()))
		require.Len(t, f.calls(), 1)
		require.Empty(t, f.log.String(), "nothing is wrong")
	})
}

func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.script(func(context.Context) (string, error) { panic("a mistake in an SDK") })
		_, err := f.Summarize(t.Context(), insight())
		require.Equal(t, assay.CodeInternal, assay.ErrorCode(err))
		require.Contains(t, f.log.String(), "a mistake in an SDK")
		_, err = f.Summarize(t.Context(), insight())
		require.NoError(t, err)
	})
}

func TestUnknownType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		require.Equal(t, afterFailure, f.unavailable(insight(func(i *assay.Insight) { i.Type = "of_tomorrow" })))
		require.Empty(t, f.calls())
	})
}

// TestWhatIsTold: messages and logs say what happened and quote nothing.
func TestWhatIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.script(status(401), "<script>secret of the model</script>")
		for _, what := range []string{"status 401", "an answer without text"} {
			_, err := f.Summarize(t.Context(), insight())
			var e *assay.Error
			require.ErrorAs(t, err, &e)
			require.NotNil(t, e.Err, "clients are told in general words")
			require.Contains(t, e.Error(), what)
			require.Contains(t, f.log.String(), what)
		}
		for _, private := range []string{"checkout", "users", "secret", insight().OrganizationID} {
			require.NotContains(t, f.log.String(), private)
		}
	})
}
