// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"assay/internal/wire"
)

// Entry holds the totals of one signal. A request that is acknowledged more than once counts once.
type Entry struct {
	Signal string `json:"signal"`

	RequestsSent         uint64 `json:"requests_sent"`
	RequestsAcknowledged uint64 `json:"requests_acknowledged"`
	Retried              uint64 `json:"retried"`  // attempts after the first, before the acknowledgement
	Repeated             uint64 `json:"repeated"` // requests repeated although acknowledged
	Refused              uint64 `json:"refused"`  // requests rejected with an error that is not retryable

	RecordsSent         uint64 `json:"records_sent"`
	RecordsAcknowledged uint64 `json:"records_acknowledged"`
	RecordsCounted      uint64 `json:"records_counted"` // as clients read it

	BytesSent         uint64 `json:"bytes_sent"`
	BytesAcknowledged uint64 `json:"bytes_acknowledged"`
	BytesCounted      uint64 `json:"bytes_counted"` // as clients read it
}

// Ledger records the outcome of the requests of a load. It is safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	entries map[wire.Signal]*Entry
	causes  map[string]uint64 // causes of retries
	refused []string          // errors of the first refused requests

	halves map[pcommon.TraceID]time.Time // time of the acknowledgement of a trace's first half
	apart  time.Duration                 // longest time between two halves
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	l := &Ledger{entries: make(map[wire.Signal]*Entry), causes: make(map[string]uint64), halves: make(map[pcommon.TraceID]time.Time)}
	for _, s := range signals {
		l.entries[s] = &Entry{Signal: s.String()}
	}
	return l
}

// signals are all signals, in the order of the ledger.
var signals = []wire.Signal{wire.Traces, wire.Metrics, wire.Logs}

func (r *Request) records() (n uint64) {
	for _, of := range r.Records {
		n += of
	}
	return n
}

func (l *Ledger) sent(r *Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[r.Signal]
	e.RequestsSent++
	e.RecordsSent += r.records()
	e.BytesSent += uint64(len(r.Body))
}

func (l *Ledger) acknowledged(r *Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[r.Signal]
	e.RequestsAcknowledged++
	e.RecordsAcknowledged += r.records()
	e.BytesAcknowledged += uint64(len(r.Body))
	if r.Half == (pcommon.TraceID{}) {
		return
	}
	now := time.Now()
	if first, ok := l.halves[r.Half]; ok {
		l.apart = max(l.apart, now.Sub(first))
		delete(l.halves, r.Half)
	} else {
		l.halves[r.Half] = now
	}
}

// Apart returns the longest time between the acknowledgements of two halves of a trace.
func (l *Ledger) Apart() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.apart
}

func (l *Ledger) retried(r *Request, cause string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[r.Signal].Retried++
	l.causes[cause]++
}

func (l *Ledger) repeated(r *Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[r.Signal].Repeated++
}

// maxRefused limits the number of recorded errors.
const maxRefused = 8

func (l *Ledger) refuse(r *Request, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[r.Signal].Refused++
	if len(l.refused) < maxRefused {
		l.refused = append(l.refused, fmt.Sprintf("%s of %s: %v", r.Signal, r.Organization, why))
	}
}

// Count records the totals that clients read of all organizations at the end.
func (l *Ledger) Count(of map[string]*State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		e.RecordsCounted, e.BytesCounted = 0, 0
	}
	for _, s := range of {
		for _, u := range s.Usage {
			for i, signal := range signals {
				l.entries[signal].RecordsCounted += u.Records[i]
				l.entries[signal].BytesCounted += u.Bytes[i]
			}
		}
	}
}

// Acknowledged returns the number of acknowledged requests.
func (l *Ledger) Acknowledged() (n uint64) {
	for _, e := range l.Entries() {
		n += e.RequestsAcknowledged
	}
	return n
}

// Entries returns the entries in the order of signals.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Entry
	for _, s := range signals {
		all = append(all, *l.entries[s])
	}
	return all
}

// Causes returns the number of retries by the cause of the failed attempt.
func (l *Ledger) Causes() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.causes)
}

// Balance returns the violations: requests that were refused or not acknowledged, and records that are not
// counted exactly once.
func (l *Ledger) Balance() []string {
	var wrong []string
	for _, e := range l.Entries() {
		if e.RequestsAcknowledged != e.RequestsSent || e.Refused != 0 {
			wrong = append(wrong, fmt.Sprintf("%s: of %d requests %d were acknowledged and %d refused", e.Signal, e.RequestsSent, e.RequestsAcknowledged, e.Refused))
		}
		if e.RecordsCounted != e.RecordsSent || e.BytesCounted != e.BytesSent {
			wrong = append(wrong, fmt.Sprintf("%s: %d records of %d bytes were sent, %d of %d are counted", e.Signal, e.RecordsSent, e.BytesSent, e.RecordsCounted, e.BytesCounted))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(wrong, l.refused...)
}

// Print writes the ledger as a table.
func (l *Ledger) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "requests\tsent\tacknowledged\tretried\trepeated\trefused\t")
	for _, e := range l.Entries() {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t\n", e.Signal, e.RequestsSent, e.RequestsAcknowledged, e.Retried, e.Repeated, e.Refused)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(t, "\nrecords\tsent\tacknowledged\tcounted\tbytes sent\tacknowledged\tcounted\t")
	for _, e := range l.Entries() {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", e.Signal, e.RecordsSent, e.RecordsAcknowledged, e.RecordsCounted, e.BytesSent, e.BytesAcknowledged, e.BytesCounted)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	causes := l.Causes()
	var parts []string
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		parts = append(parts, fmt.Sprintf("%s %d", cause, causes[cause]))
	}
	_, err := fmt.Fprintf(w, "\nretried after: %s\n", strings.Join(parts, ", "))
	return err
}

func TestLedger(t *testing.T) {
	spans := &Request{Organization: "a", Signal: wire.Traces, Body: []byte("12345"), Records: map[string]uint64{"x": 2, "y": 1}}
	logs := &Request{Organization: "a", Signal: wire.Logs, Body: []byte("123"), Records: map[string]uint64{"x": 4}}
	l := NewLedger()
	for _, r := range []*Request{spans, logs} {
		l.sent(r)
		l.retried(r, "503")
		l.acknowledged(r)
	}
	l.repeated(logs)
	counted := func(spans, logs uint64) map[string]*State {
		return map[string]*State{"a": {Usage: map[string]Usage{
			"x": {Records: [3]uint64{spans, 0, logs}, Bytes: [3]uint64{4, 0, 3}},
			"y": {Records: [3]uint64{1, 0, 0}, Bytes: [3]uint64{1, 0, 0}},
		}}}
	}
	l.Count(counted(2, 4))
	require.Empty(t, l.Balance())
	require.EqualValues(t, 2, l.Acknowledged())
	require.Equal(t, map[string]uint64{"503": 2}, l.Causes())
	var table strings.Builder
	require.NoError(t, l.Print(&table))
	require.Regexp(t, `traces +1 +1 +1 +0 +0\n`, table.String())
	require.Regexp(t, `logs +4 +4 +4 +3 +3 +3\n`, table.String())
	require.Contains(t, table.String(), "retried after: 503 2")

	l.Count(counted(2, 8))
	require.Equal(t, []string{"logs: 4 records of 3 bytes were sent, 8 of 3 are counted"}, l.Balance(), "counted twice")
	l.Count(counted(1, 4))
	require.Equal(t, []string{"traces: 3 records of 5 bytes were sent, 2 of 5 are counted"}, l.Balance(), "lost")
	l.Count(counted(2, 4))
	l.sent(spans)
	l.refuse(spans, errors.New("malformed"))
	require.Len(t, l.Balance(), 3)
	require.Contains(t, l.Balance(), "traces of a: malformed")
}

func TestWatcher(t *testing.T) {
	seen := func(changes ...func(*Insight)) []string {
		w := newWatcher()
		first := Insight{Organization: "a", ID: "1", ServiceName: "x", CreatedAt: time.Unix(1, 0), DetectedAt: time.Unix(1, 0)}
		first.Type.RuleID = "SPA-001"
		w.see(first)
		for _, change := range changes {
			next := first
			change(&next)
			w.see(next)
		}
		return w.found()
	}
	require.Empty(t, seen(func(*Insight) {}, func(i *Insight) { i.Status = "muted" }, func(i *Insight) { i.ID, i.ServiceName = "2", "y" }))
	require.Len(t, seen(func(i *Insight) { i.ID = "2" }), 1, "two insights for one rule")
	require.Len(t, seen(func(i *Insight) { i.CreatedAt = time.Unix(2, 0) }), 1, "created twice")
	require.Len(t, seen(func(i *Insight) { i.DetectedAt = time.Unix(2, 0) }), 1, "opened twice")
}

func TestDifferences(t *testing.T) {
	state := func(change func(*State)) map[string]*State {
		s := &State{
			Score: 90, Services: map[string]ServiceState{"x": {Score: 80, Active: []string{"SPA-001"}}},
			Usage: map[string]Usage{"x": {Records: [3]uint64{1, 2, 3}}}, Logs: map[string]uint64{"INFO": 3},
		}
		change(s)
		return map[string]*State{"a": s}
	}
	want := state(func(*State) {})
	require.Empty(t, Differences(want, state(func(s *State) { s.Logs = nil })))
	for _, change := range []func(*State){
		func(s *State) { s.Score = 91 },
		func(s *State) { s.Services["x"] = ServiceState{Score: 80} },
		func(s *State) { s.Services["y"] = ServiceState{Score: -1} },
		func(s *State) { s.Usage["x"] = Usage{Records: [3]uint64{1, 2, 4}} },
		func(s *State) { s.Logs["INFO"] = 4 },
	} {
		require.Len(t, Differences(want, state(change)), 1)
	}
	require.Len(t, Differences(want, nil), 1)

	v := Verdicts{"a/x": {"SPA-001": {10, 1}}}
	require.Empty(t, v.Differences(Verdicts{"a/x": {"SPA-001": {10, 1}}}))
	require.Len(t, v.Differences(Verdicts{"a/x": {"SPA-001": {11, 1}}}), 1)
	require.Len(t, v.Differences(Verdicts{"a/x": {"SPA-001": {10, 1}}, "a/y": {"SPA-001": {1, 0}}}), 1)
	require.Len(t, v.Differences(nil), 1)
}
