// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/fileutil"

	"assay"
)

const (
	// keepAlive is how old a series' newest sample gets before it is repeated, so
	// that retention never takes the last one.
	keepAlive = time.Hour

	// lookback is how far apart two samples may be that count together: past it an
	// increment is written with the value before it, one millisecond earlier. A query
	// therefore needs no sample older than its start by more than this.
	lookback = time.Minute

	// patience is how far the clock may go back and be waited for. Past it the
	// samples that lie in the future are dropped.
	patience = 10 * time.Minute

	// tick is how often Run looks whether something is due.
	tick = time.Minute

	// embeddedQueries bounds how many queries read the TSDB at once.
	embeddedQueries = 4
)

// EmbeddedConfig says where log volume is kept and what it starts from. Dir and
// Store are needed; the zero value of another field means its default.
type EmbeddedConfig struct {
	Dir     string               // is made if need be; one process at a time
	Store   assay.LogRecordStore // asked by OpenEmbedded alone
	Timeout time.Duration        // of a query; default 5 s
	Now     func() time.Time
	Logger  *slog.Logger
}

// Embedded keeps log volume in a Prometheus TSDB in a directory and answers exactly:
// with the records whose commit lies in the period, to the millisecond.
//
// What was ever accepted is told by the store; the TSDB keeps when. A sample is the
// store's total, so whatever could not be written is made up for by the next
// sample, and records that were committed while no Embedded watched, such as by
// another replica, count as of the next OpenEmbedded. A series counts from its
// first sample on: zero for one that is really new, the store's total for one whose
// samples are lost.
//
// Commits have increasing timestamps: where the clock stands still or goes back a
// little, time goes on by a millisecond a commit. LogVolume may be used
// concurrently; Add is called by one goroutine at a time.
type Embedded struct {
	cfg     EmbeddedConfig
	queries places
	last    atomic.Int64 // Unix milliseconds of the newest sample

	// db is replaced and closed by whoever holds both locks, and read by whoever
	// holds one of them; nil: closed, or lost while it was replaced.
	opening sync.RWMutex
	db      *database

	mu       sync.Mutex        // guards what follows
	lock     fileutil.Releaser // of the directory; nil: closed
	series   map[seriesKey]*series
	census   series               // of how many series there are
	due      map[*series]struct{} // total is not yet written
	appender func(context.Context) storage.Appender
	failures failures
}

type seriesKey struct {
	organizationID string
	severity       assay.Severity
}

// labels returns the labels of the series, whose generation is empty but for one
// that begins anew.
func (k seriesKey) labels(generation string) labels.Labels {
	if k == censusKey {
		return labels.FromStrings(model.MetricNameLabel, censusName)
	}
	return labels.FromStrings(model.MetricNameLabel, metricName,
		organizationLabel, k.organizationID, severityLabel, k.severity.String(), generationLabel, generation)
}

// The census is a series of how many others there are. It tells a series that is
// new from one whose samples were lost.
const censusName = "logs_severity_series"

var censusKey = seriesKey{severity: assay.SeverityCount}

// generationLabel tells apart the series of one organization and severity that
// came one after the other.
const generationLabel = "generation"

// series is one organization's counter of one severity.
type series struct {
	labels  labels.Labels
	ref     storage.SeriesRef
	total   uint64 // records ever accepted
	written uint64 // value of the newest sample
	at      int64  // its time; never before there is one
}

const never = math.MinInt64 // time of a sample that there is not

var _ assay.LogVolumeReader = (*Embedded)(nil)

// OpenEmbedded opens the directory and writes the store's totals, before the first
// commit. Damage is repaired or, where that cannot be done, moved away and logged;
// that another process has the directory open is an error. Close ends it.
func OpenEmbedded(ctx context.Context, cfg EmbeddedConfig) (*Embedded, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = queryTimeout
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	totals, err := cfg.Store.LogRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the number of log records: %w", err)
	}
	lock, _, err := fileutil.Flock(filepath.Join(cfg.Dir, lockFile))
	if err != nil {
		return nil, fmt.Errorf("lock %s, which one process at a time may use: %w", cfg.Dir, err)
	}
	e := &Embedded{
		cfg:      cfg,
		queries:  make(places, embeddedQueries),
		lock:     lock,
		series:   make(map[seriesKey]*series),
		census:   series{labels: censusKey.labels("")},
		due:      make(map[*series]struct{}),
		failures: failures{logger: cfg.Logger},
	}
	for id, counts := range totals {
		for severity, n := range counts {
			if n > 0 {
				s := e.seriesOf(id, assay.Severity(severity))
				s.total, s.written = n, n // unless the TSDB knows better
			}
		}
	}
	if err := e.resume(ctx); err != nil {
		if e.db != nil {
			err = errors.Join(err, e.db.Close())
		}
		return nil, errors.Join(err, lock.Release())
	}
	e.writeOrLog()
	return e, nil
}

// resume goes on where the TSDB ends: it drops the future and has every series
// continue from its last value. All totals are due then. Both locks are held or not
// needed yet.
func (e *Embedded) resume(ctx context.Context) (err error) {
	if e.db == nil {
		if e.db, err = openDatabase(e.cfg.Dir, e.cfg.Logger); err != nil {
			return fmt.Errorf("open log volume: %w", err)
		}
	}
	now := e.now()
	moment := e.db.newest()
	ahead := moment > now+patience.Milliseconds()
	if ahead {
		moment = now
		e.db.DisableCompactions() // nothing goes between reading and rewinding
	}
	last, err := e.db.lastSamples(ctx, moment)
	if err != nil {
		return fmt.Errorf("read the last samples of log volume: %w", err)
	}
	if ahead {
		e.cfg.Logger.Warn("the clock went back; log records counted in what is the future again count as of now",
			"newest", time.UnixMilli(e.db.newest()).UTC(), "now", time.UnixMilli(now).UTC())
		db := e.db
		e.db = nil
		if err := db.rewind(ctx, now); err != nil {
			return fmt.Errorf("drop log volume of the future: %w", err)
		}
		if e.db, err = openDatabase(e.cfg.Dir, e.cfg.Logger); err != nil {
			return fmt.Errorf("open log volume: %w", err)
		}
	}
	e.appender = e.db.Appender
	e.last.Store(max(e.db.newest(), 0))
	// What was accepted since samples that retention should have taken cannot be told
	// from what had been accepted before them.
	if now-moment >= retention.Milliseconds() {
		clear(last)
	}
	// The TSDB had every series that was ever written, unless files were lost. One
	// that is not there is new, or else nobody knows when its records came.
	census, found := last[censusKey]
	intact := found && uint64(len(last)-1) >= census.value
	resume := func(key seriesKey, s *series) {
		s.ref, s.at = 0, never
		switch l, ok := last[key]; {
		case ok && l.value > s.total:
			// The store was restored from a backup. A series never shrinks, so another one goes on.
			s.written, s.labels = s.total, key.labels(strconv.FormatInt(now, 10))
		case ok:
			s.written, s.labels = l.value, key.labels(l.generation)
		case intact:
			s.written = 0
		}
		e.due[s] = struct{}{}
	}
	for key, s := range e.series {
		resume(key, s)
	}
	resume(censusKey, &e.census)
	return nil
}

// now is the clock in Unix milliseconds.
func (e *Embedded) now() int64 { return e.cfg.Now().UnixMilli() }

// seriesOf returns the series, a new one with nothing written. mu is held.
func (e *Embedded) seriesOf(organizationID string, severity assay.Severity) *series {
	key := seriesKey{organizationID, severity}
	s := e.series[key]
	if s == nil {
		s = &series{at: never, labels: key.labels("")}
		e.series[key] = s
		e.census.total = uint64(len(e.series))
		e.due[&e.census] = struct{}{}
	}
	return s
}

// Add counts records, by organization id, that the store has committed, and has
// every later LogVolume see them. What fails is logged and made up for later.
func (e *Embedded) Add(records map[string]assay.SeverityCounts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, counts := range records {
		for severity, n := range counts {
			if n > 0 {
				s := e.seriesOf(id, assay.Severity(severity))
				s.total += n
				e.due[s] = struct{}{}
			}
		}
	}
	e.writeOrLog()
}

func (e *Embedded) writeOrLog() {
	e.failures.note(e.cfg.Now(), e.write(), len(e.due))
}

// write appends the totals that are due at one moment, later than any before. A
// failure leaves them due. mu is held.
func (e *Embedded) write() error {
	if e.db == nil {
		return errors.New("log volume is not open")
	}
	if len(e.due) == 0 {
		return nil
	}
	at := max(e.now(), e.last.Load()+1)
	app := e.appender(context.Background())
	for s := range e.due {
		if err := s.append(app, at); err != nil {
			return errors.Join(fmt.Errorf("append: %w", err), app.Rollback())
		}
	}
	if err := app.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	for s := range e.due {
		s.written, s.at = s.total, at
	}
	clear(e.due)
	e.last.Store(at)
	return nil
}

// append adds the total and, where it would stand alone, the value before it.
func (s *series) append(app storage.Appender, at int64) error {
	if s.total != s.written && (s.at == never || at-s.at > lookback.Milliseconds()) {
		if err := s.sample(app, at-1, s.written); err != nil {
			return err
		}
	}
	return s.sample(app, at, s.total)
}

// sample adds one sample, exact up to 2^53 records.
func (s *series) sample(app storage.Appender, at int64, value uint64) error {
	ref, err := app.Append(s.ref, s.labels, at, float64(value))
	if err != nil {
		return err
	}
	s.ref = ref
	return nil
}

// Run repeats samples before retention takes them, tries again what could not be
// written and watches for a clock that went back, until ctx ends.
func (e *Embedded) Run(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			e.maintain(ctx)
		}
	}
}

func (e *Embedded) maintain(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lock == nil {
		return
	}
	now := e.now()
	if e.db == nil || e.last.Load() > now+patience.Milliseconds() {
		e.opening.Lock()
		defer e.opening.Unlock()
		if err := e.resume(ctx); err != nil {
			e.failures.note(e.cfg.Now(), err, len(e.due))
			return
		}
		e.writeOrLog()
		return
	}
	e.repeat(now - keepAlive.Milliseconds())
}

// repeat writes again what was last written at or before a moment. mu is held.
func (e *Embedded) repeat(before int64) {
	for _, s := range e.series {
		if s.at <= before {
			e.due[s] = struct{}{}
		}
	}
	if e.census.at <= before {
		e.due[&e.census] = struct{}{}
	}
	e.writeOrLog()
}

// Close writes every series once more and closes the directory. Queries under
// way end first; later ones fail. It may be called more than once.
func (e *Embedded) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lock == nil {
		return nil
	}
	e.repeat(math.MaxInt64)
	e.opening.Lock()
	defer e.opening.Unlock()
	var err error
	if e.db != nil {
		err = e.db.Close()
	}
	err = errors.Join(err, e.lock.Release())
	e.db, e.lock = nil, nil
	return err
}

// LogVolume implements assay.LogVolumeReader.
func (e *Embedded) LogVolume(ctx context.Context, organizationID string, period assay.LogVolumePeriod) (*assay.LogVolume, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	if err := e.queries.take(ctx); err != nil {
		return nil, err
	}
	defer e.queries.release()
	e.opening.RLock()
	defer e.opening.RUnlock()
	if e.db == nil {
		return nil, upstream("log volume is not open", nil)
	}
	v, err := newVolume(period, time.UnixMilli(max(e.now(), e.last.Load())))
	if err != nil {
		return nil, err
	}
	if err := e.db.count(ctx, organizationID, v); err != nil {
		return nil, upstream("the log records could not be counted", err)
	}
	return v, nil
}

// failures logs at most one failure a minute, and when they ended.
type failures struct {
	logger *slog.Logger
	logged time.Time // zero: nothing is wrong
}

func (f *failures) note(now time.Time, err error, series int) {
	since := now.Sub(f.logged)
	switch {
	case err == nil && !f.logged.IsZero():
		f.logger.Info("log volume is written again")
		f.logged = time.Time{}
	case err != nil && (f.logged.IsZero() || since >= time.Minute || since < 0):
		f.logger.Error("log volume could not be written; what is missing is written later", "series", series, "error", err)
		f.logged = now
	}
}
