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

	"assay"
	"assay/internal/rules/rulestest"
	"assay/internal/score"
	"assay/internal/wire"
)

// soon is what an operator's change may take to show at a running server: five
// seconds are promised, and the machine may be busy.
const soon = 20 * time.Second

// unset are n log records of a service without a severity, which LOG-002 counts.
func unset(service string, n int, text string) rulestest.Request {
	records := make([]*logspb.LogRecord, n)
	for i := range records {
		records[i] = rulestest.Log(fmt.Sprintf("%s %d", text, i), func(r *logspb.LogRecord) {
			r.TimeUnixNano, r.SeverityNumber = rulestest.Nano(time.Now()), 0
		})
	}
	return rulestest.LogsRequest(rulestest.Logs(rulestest.Service(service), records...))
}

// counted returns how many log records the store of a server that has ended holds
// for LOG-002, by service. Insights show that at most once a minute, so it is asked
// of a copy of the store two minutes from now.
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

// TestFirstStart follows the README with nothing but its commands: the key that is
// written once works for sending and for reading, also after a restart.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDaemon(t, dir)
	file := filepath.Join(dir, "bootstrap-key")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	key := strings.TrimSpace(d.read(t, file))
	require.Regexp(t, `^assay_sk_[A-Za-z0-9]{6}_[0-9a-f]{32}$`, key)
	require.Empty(t, d.read(t, d.stdout), "no terminal")
	require.NotContains(t, d.read(t, d.log), key)
	require.Contains(t, d.read(t, d.log), file)

	d.mustPost(t, key, unset("first", 3, "hello"))
	// The promise of the README, with the default intervals.
	eventually(t, time.Minute, func() bool {
		s := d.service(t, key, "first")
		return s != nil && s.Score != nil
	}, "no score")
	require.Equal(t, []string{"LOG-002"}, d.failedRules(t, key, "first"))
	o := getAs[restOrganization](t, d, key, "/v1/organization").Data
	require.Equal(t, "default", o.Name)
	require.Equal(t, 1, o.ServicesCount)
	d.stop(t)

	again := startDaemon(t, dir)
	require.Equal(t, key+"\n", again.read(t, file), "no other key")
	require.NotNil(t, again.service(t, key, "first").Score)
	again.stop(t)
	for _, file := range []string{d.log, again.log} {
		require.NotContains(t, d.read(t, file), `"level":"ERROR"`)
	}
}

// TestKeys makes keys with some of the scopes, keys that end and keys that are revoked.
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
		return seen{d.get(t, key, "/v1/services").status, a.status, codeOf(err)}
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
	require.NotZero(t, d.assay(t, "key", "create", "--name", "x", "--scopes", "write").code)
	require.NotZero(t, d.assay(t, "key", "create", "--name", "x", "--organization", "nobody").code)

	revoked := d.newKey(t)
	require.Equal(t, all, try(revoked))
	require.Zero(t, d.assay(t, "key", "revoke", keyID(revoked)).code)
	eventually(t, soon, func() bool { return try(revoked) == nothing }, "the key still works")

	const life = 2 * time.Second
	made := time.Now()
	ends := d.newKey(t, "--expires-in", life.String())
	if first := try(ends); time.Since(made) < life {
		require.Equal(t, all, first)
	}
	eventually(t, life+soon, func() bool { return try(ends) == nothing }, "the key still works")
	require.GreaterOrEqual(t, time.Since(made), life)

	list := d.assay(t, "key", "list").stdout
	for _, key := range []string{bootstrapKey, revoked, ends} {
		require.Contains(t, list, keyID(key))
		require.NotContains(t, list, key[len(key)-32:])
	}
	require.Contains(t, list, "revoked")
	require.Contains(t, list, "expired")
	require.Equal(t, all, try(bootstrapKey), "others are as they were")
}

// TestChangesBesideTheServer mutes an insight and changes a tier with commands.
func TestChangesBesideTheServer(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey, "--score-interval", "300ms")
	d.mustPost(t, bootstrapKey, unset("muted", 2, "x"))
	var insight restInsight
	eventually(t, time.Minute, func() bool {
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
	require.Zero(t, r.code, r.stderr)
	eventually(t, soon, func() bool { return status() == "muted" && active() == 0 }, "the insight is not muted")
	path := "/v1/services/" + insight.ServiceID + "/insights"
	require.Empty(t, getAs[[]restInsight](t, d, bootstrapKey, path).Data, "active ones are shown by default")
	require.Len(t, getAs[[]restInsight](t, d, bootstrapKey, path+"?status=muted").Data, 1)

	// It stays muted whatever comes, and the score is what it was.
	since := time.Now()
	d.mustPost(t, bootstrapKey, unset("muted", 3, "y"))
	eventually(t, time.Minute, func() bool {
		return !d.service(t, bootstrapKey, "muted").LastSeenAt.Before(since.Truncate(time.Microsecond))
	}, "not seen")
	require.Equal(t, "muted", status())
	require.Equal(t, score.Score, d.service(t, bootstrapKey, "muted").Score.Score)

	r = d.assay(t, "insight", "unmute", insight.ID)
	require.Zero(t, r.code, r.stderr)
	eventually(t, soon, func() bool { return status() == "active" && active() == 1 }, "the insight is muted")

	tier := func() string { return getAs[restOrganization](t, d, bootstrapKey, "/v1/organization").Data.Tier.Name }
	require.Equal(t, "free", tier())
	features := getAs[restOrganization](t, d, bootstrapKey, "/v1/organization").Data.Tier.Features
	require.Zero(t, d.assay(t, "organization", "set-tier", "default", "enterprise").code)
	eventually(t, soon, func() bool { return tier() == "enterprise" }, "the tier is the old one")
	require.Greater(t, len(getAs[restOrganization](t, d, bootstrapKey, "/v1/organization").Data.Tier.Features), len(features))
	require.NotZero(t, d.assay(t, "organization", "set-tier", "default", "gold").code)
}

// TestRepeatedRequest sends the same bytes again: at once, over the other transport,
// as JSON with the same content, and after a restart.
func TestRepeatedRequest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDaemon(t, dir, "--bootstrap-api-key", bootstrapKey)
	other := d.newOrganization(t, "other")
	r := unset("repeated", 7, "x")
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if a, err := d.post(t.Context(), bootstrapKey, r.Signal, r.Body); err != nil || a.status != http.StatusOK {
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
	d.mustPost(t, other, r) // not the same organization, not the same request
	d.mustPost(t, bootstrapKey, unset("repeated", 1, "another one"))
	d.kill()

	again := startDaemon(t, dir)
	again.mustPost(t, bootstrapKey, r)
	again.mustPost(t, bootstrapKey, unset("repeated", 2, "the last one"))
	first := getAs[restOrganization](t, again, bootstrapKey, "/v1/organization").Data.ID
	second := getAs[restOrganization](t, again, other, "/v1/organization").Data.ID
	again.stop(t)
	require.Equal(t, map[string]int64{first + "/repeated": 7 + 1 + 2, second + "/repeated": 7}, counted(t, dir))
}

// TestKilledUnderLoad kills the server again and again while senders send. What was
// acknowledged is there; what was not is sent again, as senders do, and counts once.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	kills := 4
	if long(t, "40 kills instead of 4") {
		kills = 40
	}
	const (
		senders = 4
		records = 5 // of a request
	)
	dir := t.TempDir()
	var (
		open         []rulestest.Request // sent, and not acknowledged
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
		for range 40 + 7*kill { // not always at the same point of a commit
			<-sent
		}
		d.kill()
		all.Wait()
		require.NotEmpty(t, open)
		// Nothing was lost. What was cut off may be there or not.
		stored := sum()
		require.GreaterOrEqual(t, stored, int64(acknowledged*records))
		require.LessOrEqual(t, stored, int64((acknowledged+len(open))*records))
		require.Zero(t, stored%records, "a request is there as a whole or not at all")
	}
	want := acknowledged * records
	require.Equal(t, int(next.Load()), acknowledged)
	d.stop(t)
	require.EqualValues(t, want, sum())
	t.Logf("%d records in %d requests, counted once each over %d kills", want, acknowledged, kills)
}

// sendOnce sends a request and returns nil when it was acknowledged.
func (d *daemon) sendOnce(r rulestest.Request, overGRPC bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if overGRPC {
		_, err := d.call(ctx, bootstrapKey, r.Signal, r.Body)
		return err
	}
	a, err := d.post(ctx, bootstrapKey, r.Signal, r.Body)
	if err == nil && a.status != http.StatusOK {
		err = errors.New(string(a.body))
	}
	return err
}

// TestTraceRules sends a trace in pieces over both transports: its rules are judged
// when it has been quiet for --trace-idle.
func TestTraceRules(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey, "--score-interval", "300ms", "--trace-idle", "1s")
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
	// The child comes before its parent, over the other transport.
	child := rulestest.Traces(rulestest.Spans(back, append(short, span(3, 2, tracepb.Span_SPAN_KIND_SERVER, time.Second), span(4, 999, tracepb.Span_SPAN_KIND_SERVER, time.Second))...))
	_, err := d.call(t.Context(), bootstrapKey, wire.Traces, child.Body)
	require.NoError(t, err)
	d.mustPost(t, bootstrapKey, rulestest.Traces(rulestest.Spans(front, span(1, 0, tracepb.Span_SPAN_KIND_CLIENT, time.Second), span(2, 1, tracepb.Span_SPAN_KIND_CLIENT, time.Second))))

	eventually(t, time.Minute, func() bool {
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
	eventually(t, time.Minute, func() bool {
		s := d.service(t, bootstrapKey, "front")
		return s.Score != nil && slices.Contains(s.Score.Evaluated, "SPA-002") && slices.Contains(s.Score.Evaluated, "SPA-005")
	}, "the trace is not judged for front")
}
