// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// Input is an input file, or one request.
type Input struct {
	Name string // name in errors
	Open func() (io.ReadCloser, error)
	// Optional: the input is skipped if it is empty or looks like something other than OTLP.
	Optional bool

	// Request is an uncompressed protobuf request of Signal. If it is set, Open is not used.
	Request []byte
	Signal  wire.Signal
}

// Progress is the progress of reading.
type Progress struct {
	Name     string // current input
	Bytes    int64  // bytes read from all inputs, before decompression
	Requests int
}

// Config configures Score. Inputs is required. Other zero fields select the default.
type Config struct {
	Inputs         []Input
	Now            time.Time     // default: the current time
	At             time.Time     // end of the window, later records do not count; default: the newest timestamp read
	Window         time.Duration // default 30 days
	Step           time.Duration // bucket size of the window; default 1 h
	MaxServices    int           // default 10,000
	MaxMetricNames int           // per service; default 2,000
	TraceMemory    int           // bytes; default 512 MiB
	MaxRequest     int64         // uncompressed bytes of one request; default 64 MiB
	Progress       func(Progress)
	Skipped        func(error) // called with the *InputError of each input that is skipped
}

// InputError reports an unreadable input.
type InputError struct {
	Name   string
	Offset int64 // in the uncompressed input, or in a message that is compressed by itself, counted from its beginning in the input
	Err    error
}

// Error returns the name, the offset unless the input could not be opened, and the cause.
func (e *InputError) Error() string {
	text := e.Err.Error()
	if path, ok := errors.AsType[*fs.PathError](e.Err); ok {
		if text = path.Err.Error(); path.Op != "read" {
			return e.Name + ": " + text
		}
	}
	if w, ok := errors.AsType[*wire.Error](e.Err); ok { // its offset is included in e.Offset
		text = strings.Replace(text, w.Error(), w.Field+": "+w.Reason, 1)
	}
	return fmt.Sprintf("%s: byte %d: %s", e.Name, e.Offset, text)
}

func (e *InputError) Unwrap() error { return e.Err }

// futureTolerance is how far a timestamp may be ahead of the time of the run.
const futureTolerance = 24 * time.Hour

// commitRequests is the number of requests per transaction.
const commitRequests = 512

// Score reads all inputs and returns their report. It returns an *InputError for an unreadable input, and if all inputs
// are skipped.
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
	// Derive the hash key from the input, so that the same input gives the same report, including evidence selected
	// by hashes.
	key, err := delta.NewHashKey(spool.digest.Sum(nil))
	if err != nil {
		return nil, err
	}
	end := span.end(cfg.Now)
	if !cfg.At.IsZero() {
		end = uint64(cfg.At.UnixNano())
	}
	e, err := newEvaluation(ctx, cfg, key, end)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if err := spool.each(func(r request) error { return e.request(ctx, r) }); err != nil {
		return nil, err
	}
	return e.report(ctx)
}

// timespan summarizes the timestamps read.
type timespan struct {
	newest   uint64 // newest within the tolerance; 0: none
	farthest uint64 // newest of all
	latest   uint64 // limit of the tolerance
}

func (s *timespan) see(unixNano uint64) {
	if unixNano > math.MaxInt64 { // the maximum time, in the year 2262
		return
	}
	s.farthest = max(s.farthest, unixNano)
	if unixNano <= s.latest {
		s.newest = max(s.newest, unixNano)
	}
}

// end returns the end of the window: the newest timestamp within the tolerance, or the newest of all if none is.
// Without timestamps it is the time of the run.
func (s *timespan) end(now time.Time) uint64 {
	return cmp.Or(s.newest, s.farthest, uint64(now.UnixNano()))
}

// read reads all requests of all inputs into the spool.
func read(ctx context.Context, cfg Config, spool *spool) (timespan, error) {
	span := timespan{latest: uint64(cfg.Now.Add(futureTolerance).UnixNano())}
	progress := Progress{}
	var skipped error // the first one
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
		if err != nil && input.Optional && notOTLP(err) {
			skipped = cmp.Or(skipped, err)
			if cfg.Skipped != nil {
				cfg.Skipped(err)
			}
			continue
		}
		if err != nil {
			return span, err
		}
	}
	if progress.Requests == 0 && skipped != nil {
		return span, skipped
	}
	return span, nil
}

// evaluation evaluates requests into a temporary store.
type evaluation struct {
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
	outside      outside
}

// outside counts records with a time outside of the window.
type outside struct {
	start, end     uint64
	records        uint64
	oldest, newest uint64
}

func (o *outside) see(unixNano uint64) {
	if unixNano == 0 || unixNano > math.MaxInt64 || o.start <= unixNano && unixNano <= o.end {
		return
	}
	if o.records++; o.records == 1 {
		o.oldest = unixNano
	}
	o.oldest, o.newest = min(o.oldest, unixNano), max(o.newest, unixNano)
}

func newEvaluation(ctx context.Context, cfg Config, key delta.HashKey, end uint64) (*evaluation, error) {
	store, err := sqlite.Open(ctx, sqlite.Config{Now: func() time.Time { return cfg.Now }})
	if err != nil {
		return nil, fmt.Errorf("open temporary store: %w", err)
	}
	org := &assay.Organization{Name: "report", Tier: assay.TierFree}
	if err := store.CreateOrganization(ctx, org); err != nil {
		_ = store.Close()
		return nil, fmt.Errorf("prepare temporary store: %w", err)
	}
	quota := engine.NewQuota(engine.QuotaConfig{Store: store, MaxServices: cfg.MaxServices, MaxMetricNames: cfg.MaxMetricNames})
	if err := quota.Load(ctx, org.ID); err != nil {
		_ = store.Close()
		return nil, err
	}
	latest := uint64(math.MaxUint64) // without At, times after the window count as its end
	if !cfg.At.IsZero() {
		latest = end
	}
	return &evaluation{
		outside: outside{start: before(end, cfg.Window), end: latest},
		cfg:     cfg, store: store, organization: org.ID, quota: quota,
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
			Closed:         !cfg.At.IsZero(),
		},
	}, nil
}

func before(t uint64, d time.Duration) uint64 {
	if t < uint64(d) {
		return 0
	}
	return t - uint64(d)
}

func (e *evaluation) close() { _ = e.store.Close() }

func (e *evaluation) request(ctx context.Context, r request) error {
	e.batch.Reset()
	if err := e.evaluator.Evaluate(ctx, r.signal, r.body, e.in, &e.batch); err != nil {
		return &InputError{Name: e.cfg.Inputs[r.input].Name, Offset: r.offset, Err: err}
	}
	if err := rules.Timestamps(ctx, r.signal, r.body, e.outside.see); err != nil {
		return err
	}
	e.batch.MergeInto(e.pending)
	e.traces.Add(e.cfg.Now, e.organization, e.batch.Spans)
	e.totals.Spans += e.batch.Items[delta.Traces]
	e.totals.MetricDataPoints += e.batch.Items[delta.Metrics]
	e.totals.LogRecords += e.batch.Items[delta.Logs]
	e.totals.Bytes += uint64(len(r.body))
	if e.requests++; e.requests%commitRequests == 0 {
		return e.commit(ctx)
	}
	return nil
}

func (e *evaluation) commit(ctx context.Context) error {
	d := e.pending
	e.pending = new(delta.Delta)
	err := e.store.Commit(ctx, e.cfg.Now, nil, func([]bool) *delta.Delta { return d })
	if err != nil {
		return fmt.Errorf("commit verdicts: %w", err)
	}
	return nil
}

// report closes all traces, scores all services and returns the result.
func (e *evaluation) report(ctx context.Context) (*report.Report, error) {
	e.traces.Flush(e.in.Start, true, e.pending)
	if err := e.commit(ctx); err != nil {
		return nil, err
	}
	start, end := unixTime(e.in.Start), unixTime(e.in.Arrival)
	scorer := score.New(score.Config{Store: e.store, Window: e.cfg.Window, Step: e.cfg.Step})
	if err := scorer.RoundAt(ctx, end, score.Period{Start: start, MetricStart: unixTime(e.in.MetricStart)}); err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	r := &report.Report{Services: []report.Service{}, Window: report.Window{Start: start, End: end}, Totals: e.totals}
	if o := e.outside; o.records > 0 {
		r.Outside = report.Outside{Records: o.records, Oldest: unixTime(o.oldest), Newest: unixTime(o.newest)}
	}
	insights, err := e.insights(ctx)
	if err != nil {
		return nil, err
	}
	err = pages(func(page assay.Page) (int, error) {
		services, _, err := e.store.FindServices(ctx, e.organization, page)
		for _, s := range services {
			entry := report.NewService(s, insights[s.ID])
			if e.inWindow(s) && (entry.Score != nil || len(entry.Insights) > 0) {
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

// inWindow reports whether a service has telemetry in the window.
func (e *evaluation) inWindow(s *assay.Service) bool {
	return uint64(s.LastSeenAt.UnixNano()) >= e.in.Start-e.in.Start%uint64(time.Microsecond)
}

// insights returns the active insights by service id.
func (e *evaluation) insights(ctx context.Context) (map[string][]*assay.Insight, error) {
	all := make(map[string][]*assay.Insight)
	err := pages(func(page assay.Page) (int, error) {
		list, _, err := e.store.FindInsights(ctx, assay.InsightFilter{
			OrganizationID: e.organization, Statuses: []assay.InsightStatus{assay.InsightActive}, Page: page,
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

// pages calls next for each page until one is not full.
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
