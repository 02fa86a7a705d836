// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/report"
	"assay/internal/rules"
	"assay/internal/score"
	"assay/internal/store/sqlite"
	"assay/internal/trace"
	"assay/internal/wire"
)

// Input is one file to read.
type Input struct {
	Name string // as errors call it
	Open func() (io.ReadCloser, error)
}

// Progress says how far reading is.
type Progress struct {
	Name     string // of the input in hand
	Bytes    int64  // read of all inputs, as they are stored
	Requests int
}

// Config of Score. Inputs are needed; the zero value of another field means its
// default.
type Config struct {
	Inputs         []Input
	Now            time.Time     // default: the present
	Window         time.Duration // default 30 days
	Step           time.Duration // of the window; default 1 h
	MaxServices    int           // default 10,000
	MaxMetricNames int           // per service; default 2,000
	TraceMemory    int           // bytes; default 512 MiB
	MaxRequest     int64         // uncompressed bytes of one request; default 64 MiB
	Progress       func(Progress)
}

// InputError is an input that cannot be read.
type InputError struct {
	Name   string
	Offset int64 // in the uncompressed input
	Err    error
}

func (e *InputError) Error() string {
	text := e.Err.Error()
	var w *wire.Error
	if errors.As(e.Err, &w) { // its offset is in ours
		text = strings.Replace(text, w.Error(), w.Field+": "+w.Reason, 1)
	}
	return fmt.Sprintf("%s: byte %d: %s", e.Name, e.Offset, text)
}

func (e *InputError) Unwrap() error { return e.Err }

// futureTolerance is how far ahead of the run a timestamp is believed.
const futureTolerance = 24 * time.Hour

// commitRequests is how many requests go into one transaction.
const commitRequests = 512

// Score reads all inputs and returns what they are worth. An input that cannot be
// read is an *InputError.
func Score(ctx context.Context, cfg Config) (_ *report.Report, err error) {
	if cfg.Now.IsZero() {
		cfg.Now = time.Now()
	}
	if cfg.Window <= 0 {
		cfg.Window = assay.DefaultWindow
	}
	if cfg.Step <= 0 {
		cfg.Step = assay.DefaultWindowStep
	}
	if cfg.TraceMemory <= 0 {
		cfg.TraceMemory = 512 << 20
	}
	if cfg.MaxRequest <= 0 {
		cfg.MaxRequest = 64 << 20
	}
	spool := &spool{digest: sha256.New()}
	defer spool.Close()
	span, err := read(ctx, cfg, spool)
	if err != nil {
		return nil, err
	}
	// The same input makes the same report, evidence that hashes choose included.
	key, err := delta.NewHashKey(spool.digest.Sum(nil))
	if err != nil {
		return nil, err
	}
	j, err := newJudge(ctx, cfg, key, span.end(cfg.Now))
	if err != nil {
		return nil, err
	}
	defer j.close()
	if err := spool.each(func(r request) error { return j.request(ctx, r) }); err != nil {
		return nil, err
	}
	return j.report(ctx)
}

// timespan is what is known of the timestamps read.
type timespan struct {
	newest   uint64 // not later than the run allows; 0: none
	farthest uint64 // of all
	latest   uint64 // what the run allows
}

func (s *timespan) see(unixNano uint64) {
	if unixNano > math.MaxInt64 { // in the year 2262 clocks of this kind end
		return
	}
	s.farthest = max(s.farthest, unixNano)
	if unixNano <= s.latest {
		s.newest = max(s.newest, unixNano)
	}
}

// end returns the end of the window: the newest timestamp that is not more than a
// day ahead of the run, unless all are; the time of the run without any.
func (s *timespan) end(now time.Time) uint64 {
	return cmp.Or(s.newest, s.farthest, uint64(now.UnixNano()))
}

// read brings all requests of all inputs into the spool.
func read(ctx context.Context, cfg Config, spool *spool) (timespan, error) {
	span := timespan{latest: uint64(cfg.Now.Add(futureTolerance).UnixNano())}
	progress := Progress{}
	for i, input := range cfg.Inputs {
		progress.Name = input.Name
		counter := &countingReader{report: func(n int64) {
			progress.Bytes += n
			if cfg.Progress != nil {
				cfg.Progress(progress)
			}
		}}
		err := readInput(ctx, input, counter, cfg.MaxRequest, func(signal wire.Signal, body []byte, offset int64) error {
			if err := rules.Timestamps(ctx, signal, body, span.see); err != nil {
				return err
			}
			progress.Requests++
			return spool.add(request{input: i, offset: offset, signal: signal, body: body})
		})
		if err != nil {
			return span, err
		}
	}
	return span, nil
}

// judge runs requests through the rules into a store that lives as long as it.
type judge struct {
	cfg          Config
	store        *sqlite.Store
	organization string
	evaluator    *rules.Evaluator
	quota        *engine.Quota
	traces       *trace.Assembler
	in           rules.Input
	batch        rules.Batch
	pending      *delta.Delta
	requests     int
	totals       report.Totals
}

func newJudge(ctx context.Context, cfg Config, key delta.HashKey, end uint64) (*judge, error) {
	store, err := sqlite.Open(ctx, sqlite.Config{Now: func() time.Time { return cfg.Now }})
	if err != nil {
		return nil, fmt.Errorf("open a store for the report: %w", err)
	}
	org := &assay.Organization{Name: "report", Tier: assay.TierFree}
	if err := store.CreateOrganization(ctx, org); err != nil {
		_ = store.Close()
		return nil, fmt.Errorf("prepare a store for the report: %w", err)
	}
	quota := engine.NewQuota(engine.QuotaConfig{Store: store, MaxServices: cfg.MaxServices, MaxMetricNames: cfg.MaxMetricNames})
	if err := quota.Load(ctx, org.ID); err != nil {
		_ = store.Close()
		return nil, err
	}
	return &judge{
		cfg: cfg, store: store, organization: org.ID, quota: quota,
		evaluator: rules.NewEvaluator(rules.Config{Step: cfg.Step, Quota: quota}),
		traces:    trace.NewAssembler(trace.Config{Memory: cfg.TraceMemory, Step: cfg.Step}),
		pending:   new(delta.Delta),
		in: rules.Input{
			OrganizationID: org.ID,
			HashKey:        key,
			Start:          before(end, cfg.Window),
			MetricStart:    before(end, min(cfg.Window, assay.MetricWindow)),
			Arrival:        end,
			Latest:         end,
		},
	}, nil
}

func before(t uint64, d time.Duration) uint64 {
	if t < uint64(d) {
		return 0
	}
	return t - uint64(d)
}

func (j *judge) close() { _ = j.store.Close() }

func (j *judge) request(ctx context.Context, r request) error {
	j.batch.Reset()
	if err := j.evaluator.Evaluate(ctx, r.signal, r.body, j.in, &j.batch); err != nil {
		return &InputError{Name: j.cfg.Inputs[r.input].Name, Offset: r.offset, Err: err}
	}
	j.batch.MergeInto(j.pending)
	j.traces.Add(j.cfg.Now, j.organization, j.batch.Spans)
	j.totals.Spans += j.batch.Items[delta.Traces]
	j.totals.MetricDataPoints += j.batch.Items[delta.Metrics]
	j.totals.LogRecords += j.batch.Items[delta.Logs]
	j.totals.Bytes += uint64(len(r.body))
	if j.requests++; j.requests%commitRequests == 0 {
		return j.commit(ctx)
	}
	return nil
}

func (j *judge) commit(ctx context.Context) error {
	d := j.pending
	j.pending = new(delta.Delta)
	err := j.store.Commit(ctx, j.cfg.Now, nil, func([]bool) *delta.Delta { return d })
	if err != nil {
		return fmt.Errorf("keep verdicts: %w", err)
	}
	return nil
}

// report closes all traces, scores all services and returns the result.
func (j *judge) report(ctx context.Context) (*report.Report, error) {
	j.traces.Flush(j.in.Start, true, j.pending)
	if err := j.commit(ctx); err != nil {
		return nil, err
	}
	start, end := unixTime(j.in.Start), unixTime(j.in.Arrival)
	scorer := score.New(score.Config{Store: j.store, Window: j.cfg.Window, Step: j.cfg.Step})
	if err := scorer.RoundAt(ctx, end, score.Period{Start: start, MetricStart: unixTime(j.in.MetricStart)}); err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	r := &report.Report{Services: []report.Service{}, Window: report.Window{Start: start, End: end}, Totals: j.totals}
	insights, err := j.insights(ctx)
	if err != nil {
		return nil, err
	}
	err = pages(func(page assay.Page) (int, error) {
		services, _, err := j.store.FindServices(ctx, j.organization, page)
		for _, s := range services {
			entry := report.NewService(s, insights[s.ID])
			if j.inWindow(s) && (entry.Score != nil || len(entry.Insights) > 0) {
				r.Services = append(r.Services, entry)
			}
		}
		return len(services), err
	})
	if err != nil {
		return nil, fmt.Errorf("read scores: %w", err)
	}
	slices.SortFunc(r.Services, report.CompareServices)
	return r, nil
}

// inWindow tells whether anything of a service lies in the window.
func (j *judge) inWindow(s *assay.Service) bool {
	return uint64(s.LastSeenAt.UnixNano()) >= j.in.Start-j.in.Start%uint64(time.Microsecond)
}

// insights returns the active insights by service id.
func (j *judge) insights(ctx context.Context) (map[string][]*assay.Insight, error) {
	all := make(map[string][]*assay.Insight)
	err := pages(func(page assay.Page) (int, error) {
		list, _, err := j.store.FindInsights(ctx, assay.InsightFilter{
			OrganizationID: j.organization, Statuses: []assay.InsightStatus{assay.InsightActive}, Page: page,
		})
		for _, i := range list {
			all[i.Service.ID] = append(all[i.Service.ID], i)
		}
		return len(list), err
	})
	if err != nil {
		return nil, fmt.Errorf("read insights: %w", err)
	}
	return all, nil
}

// pages calls next for one page after another until one is not full.
func pages(next func(assay.Page) (n int, err error)) error {
	const size = 1000
	for offset := 0; ; offset += size {
		n, err := next(assay.Page{Limit: size, Offset: offset})
		if err != nil || n < size {
			return err
		}
	}
}

func unixTime(unixNano uint64) time.Time {
	return time.Unix(int64(unixNano/uint64(time.Second)), int64(unixNano%uint64(time.Second))).UTC()
}
