// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"assay"
	"assay/internal/assaytest"
	"assay/internal/rules/rulestest"
	"assay/internal/score"
	"assay/internal/wire"
)

// unset returns n log records of a service without a severity. LOG-002 counts them.
func unset(service string, n int, text string) rulestest.Request {
	records := make([]*logspb.LogRecord, n)
	for i := range records {
		records[i] = rulestest.Log(fmt.Sprintf("%s %d", text, i), func(r *logspb.LogRecord) {
			r.TimeUnixNano, r.SeverityNumber = rulestest.Nano(time.Now()), 0
		})
	}
	return rulestest.LogsRequest(rulestest.Logs(rulestest.Service(service), records...))
}

// counted returns the number of log records, by service, that LOG-002 counts in the store of a stopped
// server. Insights are updated at most once a minute, so it reads a copy of the store with the clock advanced
// by two minutes.
func counted(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	later := func() time.Time { return time.Now().Add(2 * time.Minute) }
	store := openCopy(t, dir, later)
	defer store.Close()
	require.NoError(t, score.New(score.Config{Store: store, Now: later}).Round(t.Context()))
	found, _, err := store.FindInsights(t.Context(), assay.InsightFilter{Page: assay.Page{Limit: 1000}})
	require.NoError(t, err)
	counts := map[string]int64{}
	for _, i := range found {
		if i.Type == "missing_log_severity" {
			counts[i.OrganizationID+"/"+i.Service.Name] = i.Attributes["observations_total"].(int64)
		}
	}
	return counts
}

// TestFirstStart follows the commands of the README. The key that the server prints once works for sending
// and reading, also after a restart.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDaemon(t, dir)
	file := filepath.Join(dir, "bootstrap-key")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	key := strings.TrimSpace(string(text))
	require.Regexp(t, `^assay_sk_[A-Za-z0-9]{6}_[0-9a-f]{32}$`, key)
	require.Empty(t, d.Stdout.String(), "no terminal")
	require.NotContains(t, d.Log.String(), key)
	require.Contains(t, d.Log.String(), file)

	d.mustPost(t, key, unset("first", 3, "hello"))
	// The README promises this with the default intervals.
	eventually(t, func() bool {
		s := d.service(t, key, "first")
		return s != nil && s.Score != nil
	}, "no score")
	require.Equal(t, []string{"LOG-002"}, d.failedRules(t, key, "first"))
	o := getAs[restOrganization](t, d, key, "/v1/organization").Data
	require.Equal(t, "default", o.Name)
	require.Equal(t, 1, o.ServicesCount)
	d.stop(t)

	restarted := startDaemon(t, dir)
	text, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, key+"\n", string(text), "no other key")
	require.NotNil(t, restarted.service(t, key, "first").Score)
	restarted.stop(t)
	require.Empty(t, append(d.errorLines(), restarted.errorLines()...))
}

// TestKeys creates keys with some of the scopes, keys that expire and keys that are revoked.
func TestKeys(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey)
	request := unset("keys", 1, "x")
	type seen struct {
		rest, http int
		grpc       codes.Code
	}
	try := func(key string) seen {
		a, err := d.post(t.Context(), key, request.Signal, request.Body)
		require.NoError(t, err)
		_, err = d.call(t.Context(), key, request.Signal, request.Body)
		return seen{d.get(t, key, "/v1/services").Status, a.Status, status.Code(err)}
	}
	all := seen{http.StatusOK, http.StatusOK, codes.OK}
	nothing := seen{http.StatusUnauthorized, http.StatusUnauthorized, codes.Unauthenticated}

	for scopes, want := range map[string]seen{
		"read,agent,ingest": all,
		"read":              {http.StatusOK, http.StatusForbidden, codes.PermissionDenied},
		"ingest":            {http.StatusForbidden, http.StatusOK, codes.OK},
		"agent":             {http.StatusForbidden, http.StatusForbidden, codes.PermissionDenied},
	} {
		require.Equal(t, want, try(d.newKey(t, "--scopes", scopes)), scopes)
	}
	require.Equal(t, all, try(d.newKey(t)), "all scopes by default")
	other := bootstrapKey[:len(bootstrapKey)-1] + "0"
	for _, key := range []string{other, "assay_sk_nobody_" + strings.Repeat("0", 32), "nonsense", "a.b.c"} {
		require.Equal(t, nothing, try(key), key)
	}
	require.NotZero(t, d.assay(t, "key", "create", "--name", "x", "--scopes", "write").Code)
	require.NotZero(t, d.assay(t, "key", "create", "--name", "x", "--organization", "missing").Code)

	revoked := d.newKey(t)
	require.Equal(t, all, try(revoked))
	require.Zero(t, d.assay(t, "key", "revoke", keyID(revoked)).Code)
	eventually(t, func() bool { return try(revoked) == nothing }, "the key still works")

	const life = 2 * time.Second
	made := time.Now()
	ends := d.newKey(t, "--expires-in", life.String())
	if first := try(ends); time.Since(made) < life {
		require.Equal(t, all, first)
	}
	eventually(t, func() bool { return try(ends) == nothing }, "the key still works")
	require.GreaterOrEqual(t, time.Since(made), life)

	list := d.assay(t, "key", "list").Stdout
	for _, key := range []string{bootstrapKey, revoked, ends} {
		require.Contains(t, list, keyID(key))
		require.NotContains(t, list, key[len(key)-32:])
	}
	require.Contains(t, list, "revoked")
	require.Contains(t, list, "expired")
	require.Equal(t, all, try(bootstrapKey), "other keys are unchanged")
}

// TestChangesBesideTheServer mutes an insight and changes a tier with commands while the server runs.
func TestChangesBesideTheServer(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey, "--score-interval", "300ms")
	d.mustPost(t, bootstrapKey, unset("muted", 2, "x"))
	var insight restInsight
	eventually(t, func() bool {
		for _, insight = range d.insights(t, bootstrapKey) {
			if s := d.service(t, bootstrapKey, "muted"); insight.Type.RuleID == "LOG-002" && s != nil && s.Score != nil {
				return true
			}
		}
		return false
	}, "no insight")
	score := d.service(t, bootstrapKey, "muted").Score
	status := func() string { return getAs[restInsight](t, d, bootstrapKey, "/v1/insights/"+insight.ID).Data.Status }
	active := func() int { return getAs[restOrganization](t, d, bootstrapKey, "/v1/organization").Data.ActiveInsights }
	require.Equal(t, "active", status())
	require.Equal(t, 1, active())

	r := d.assay(t, "insight", "mute", insight.ID, "--reason", "known")
	require.Zero(t, r.Code, r.Stderr)
	eventually(t, func() bool { return status() == "muted" && active() == 0 }, "the insight is not muted")
	path := "/v1/services/" + insight.ServiceID + "/insights"
	require.Empty(t, getAs[[]restInsight](t, d, bootstrapKey, path).Data, "active ones are shown by default")
	require.Len(t, getAs[[]restInsight](t, d, bootstrapKey, path+"?status=muted").Data, 1)

	// New telemetry changes neither the muted status nor the score.
	since := time.Now()
	d.mustPost(t, bootstrapKey, unset("muted", 3, "y"))
	eventually(t, func() bool {
		return !d.service(t, bootstrapKey, "muted").LastSeenAt.Before(since.Truncate(time.Microsecond))
	}, "not seen")
	require.Equal(t, "muted", status())
	require.Equal(t, score.Score, d.service(t, bootstrapKey, "muted").Score.Score)

	r = d.assay(t, "insight", "unmute", insight.ID)
	require.Zero(t, r.Code, r.Stderr)
	eventually(t, func() bool { return status() == "active" && active() == 1 }, "the insight is muted")

	tier := func() string { return getAs[restOrganization](t, d, bootstrapKey, "/v1/organization").Data.Tier.Name }
	require.Equal(t, "free", tier())
	features := getAs[restOrganization](t, d, bootstrapKey, "/v1/organization").Data.Tier.Features
	require.Zero(t, d.assay(t, "organization", "set-tier", "default", "enterprise").Code)
	eventually(t, func() bool { return tier() == "enterprise" }, "the tier is the old one")
	require.Greater(t, len(getAs[restOrganization](t, d, bootstrapKey, "/v1/organization").Data.Tier.Features), len(features))
	require.NotZero(t, d.assay(t, "organization", "set-tier", "default", "gold").Code)
}

// TestRepeatedRequest repeats a request: immediately, over the other transport, as JSON with the same
// content, and after a restart.
func TestRepeatedRequest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDaemon(t, dir, "--bootstrap-api-key", bootstrapKey)
	other := d.newOrganization(t, "other")
	r := unset("repeated", 7, "x")
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if a, err := d.post(t.Context(), bootstrapKey, r.Signal, r.Body); err != nil || a.Status != http.StatusOK {
				t.Errorf("%v, %v", a, err)
			}
		})
		all.Go(func() {
			if _, err := d.call(t.Context(), bootstrapKey, r.Signal, r.Body); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	d.mustPost(t, other, r) // another organization: not a repeated request
	d.mustPost(t, bootstrapKey, unset("repeated", 1, "another one"))
	d.Kill()

	restarted := startDaemon(t, dir)
	restarted.mustPost(t, bootstrapKey, r)
	restarted.mustPost(t, bootstrapKey, unset("repeated", 2, "the last one"))
	first := getAs[restOrganization](t, restarted, bootstrapKey, "/v1/organization").Data.ID
	second := getAs[restOrganization](t, restarted, other, "/v1/organization").Data.ID
	restarted.stop(t)
	require.Equal(t, map[string]int64{first + "/repeated": 7 + 1 + 2, second + "/repeated": 7}, counted(t, dir))
}

// TestKilledUnderLoad kills the server repeatedly under load. Acknowledged requests are stored. Senders
// repeat the others, which count once.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	kills := 4
	if long(t, "40 kills instead of 4") {
		kills = 40
	}
	const (
		senders = 4
		records = 5 // per request
	)
	dir := t.TempDir()
	var (
		open         []rulestest.Request // sent but not acknowledged
		acknowledged int
		next         atomic.Int64
	)
	sum := func() (n int64) {
		for _, c := range counted(t, dir) {
			n += c
		}
		return n
	}
	var d *daemon
	for kill := 0; ; kill++ {
		d = startDaemon(t, dir, "--bootstrap-api-key", bootstrapKey, "--commit-interval", "10ms")
		for _, r := range open {
			d.mustPost(t, bootstrapKey, r)
		}
		acknowledged += len(open)
		open = nil
		if kill == kills {
			break
		}

		var mu sync.Mutex
		var all sync.WaitGroup
		sent := make(chan struct{}, 1<<16)
		for sender := range senders {
			all.Go(func() {
				for {
					r := unset("killed", records, fmt.Sprint("request ", next.Add(1)))
					err := d.sendOnce(r, sender%2 == 0)
					mu.Lock()
					if err != nil {
						open = append(open, r)
						mu.Unlock()
						return
					}
					acknowledged++
					mu.Unlock()
					sent <- struct{}{}
				}
			})
		}
		for range 40 + 7*kill { // vary the point of the commit
			<-sent
		}
		d.Kill()
		all.Wait()
		require.NotEmpty(t, open)
		// No record is lost. Requests without a response may be stored or not.
		stored := sum()
		require.GreaterOrEqual(t, stored, int64(acknowledged*records))
		require.LessOrEqual(t, stored, int64((acknowledged+len(open))*records))
		require.Zero(t, stored%records, "a request is stored completely or not at all")
	}
	want := acknowledged * records
	require.Equal(t, int(next.Load()), acknowledged)
	d.stop(t)
	require.EqualValues(t, want, sum())
	t.Logf("%d records in %d requests, each counted once across %d kills", want, acknowledged, kills)
}

// sendOnce sends a request and returns nil if it was acknowledged.
func (d *daemon) sendOnce(r rulestest.Request, overGRPC bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), assaytest.Limit)
	defer cancel()
	if overGRPC {
		_, err := d.call(ctx, bootstrapKey, r.Signal, r.Body)
		return err
	}
	a, err := d.post(ctx, bootstrapKey, r.Signal, r.Body)
	if err == nil && a.Status != http.StatusOK {
		err = errors.New(string(a.Body))
	}
	return err
}

// TestTraceRules sends a trace in parts over both transports. Its rules are evaluated after --trace-idle
// without a new span.
func TestTraceRules(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey, "--score-interval", "300ms", "--trace-idle", "10s")
	now := time.Now()
	span := func(id, parent int, kind tracepb.Span_SpanKind, took time.Duration) *tracepb.Span {
		return rulestest.Span(1, id, parent, func(s *tracepb.Span) {
			s.Kind, s.StartTimeUnixNano, s.EndTimeUnixNano = kind, rulestest.Nano(now.Add(-took)), rulestest.Nano(now)
		})
	}
	front, back := rulestest.Service("front"), rulestest.Service("back")
	var short []*tracepb.Span
	for i := range 21 {
		short = append(short, span(100+i, 2, tracepb.Span_SPAN_KIND_INTERNAL, time.Millisecond))
	}
	// The child arrives before its parent, over the other transport.
	child := rulestest.Traces(rulestest.Spans(back, append(short, span(3, 2, tracepb.Span_SPAN_KIND_SERVER, time.Second), span(4, 999, tracepb.Span_SPAN_KIND_SERVER, time.Second))...))
	_, err := d.call(t.Context(), bootstrapKey, wire.Traces, child.Body)
	require.NoError(t, err)
	d.mustPost(t, bootstrapKey, rulestest.Traces(rulestest.Spans(front, span(1, 0, tracepb.Span_SPAN_KIND_CLIENT, time.Second), span(2, 1, tracepb.Span_SPAN_KIND_CLIENT, time.Second))))

	eventually(t, func() bool {
		failed := d.failedRules(t, bootstrapKey, "back")
		slices.Sort(failed)
		return slices.Equal(failed, []string{"SPA-001", "SPA-002", "SPA-005"}) && slices.Equal(d.failedRules(t, bootstrapKey, "front"), []string{"SPA-004"})
	}, "back: %q, front: %q", d.failedRules(t, bootstrapKey, "back"), d.failedRules(t, bootstrapKey, "front"))
	for _, i := range d.insights(t, bootstrapKey) {
		require.Equal(t, fmt.Sprintf("%x", rulestest.TraceID(1)), i.TraceID, i.Type.Name)
		if i.Type.RuleID == "SPA-002" {
			require.EqualValues(t, 23, i.Attributes["observations_total"])
			require.EqualValues(t, 1, i.Attributes["violations_total"])
		}
	}
	eventually(t, func() bool {
		s := d.service(t, bootstrapKey, "front")
		return s.Score != nil && slices.Contains(s.Score.Evaluated, "SPA-002") && slices.Contains(s.Score.Evaluated, "SPA-005")
	}, "the trace is not evaluated for front")
}
