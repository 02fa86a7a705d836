// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/wire"
)

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
