// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay"
	"assay/internal/delta"
	"assay/internal/engine"
	. "assay/internal/rules/rulestest"
	"assay/internal/score"
	"assay/internal/trace"
)

// The constants of XXH64, https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md. They are variables
// because constant products must not overflow.
var (
	xxh1 uint64 = 0x9E3779B185EBCA87
	xxh2 uint64 = 0xC2B2AE3D27D4EB4F
	xxh3 uint64 = 0x165667B19E3779F9
	xxh4 uint64 = 0x85EBCA77C2B2AE63
	xxh5 uint64 = 0x27D4EB2F165667C5
)

// inverse returns the inverse of an odd number modulo 2^64.
func inverse(a uint64) uint64 {
	x := a
	for range 6 {
		x *= 2 - a*x
	}
	return x
}

// collide returns 16 printable bytes whose XXH64 is hash, as a hostile sender would to have its text taken
// for another one.
func collide(r *rand.Rand, hash uint64) string {
	unshift := func(x uint64, n uint) uint64 {
		for s := n; s < 64; s *= 2 {
			x ^= x >> s
		}
		return x
	}
	lane := func(k uint64) uint64 { return bits.RotateLeft64(k*xxh2, 31) * xxh1 }
	h := unshift(hash, 32) * inverse(xxh3)
	h = unshift(h, 29) * inverse(xxh2)
	h = unshift(h, 33)
	h = bits.RotateLeft64((h-xxh4)*inverse(xxh1), -27) // before the second lane
	b := make([]byte, 16)
	for {
		for i := range 8 {
			b[i] = byte('0' + r.IntN('z'-'0'))
		}
		first := bits.RotateLeft64((xxh5+16)^lane(binary.LittleEndian.Uint64(b)), 27)*xxh1 + xxh4
		second := bits.RotateLeft64((h^first)*inverse(xxh1), -31) * inverse(xxh2)
		binary.LittleEndian.PutUint64(b[8:], second)
		if !slices.ContainsFunc(b[8:], func(c byte) bool { return c < ' ' || c > '~' }) {
			return string(b)
		}
	}
}

func TestCollide(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range []string{"", "GET /cart", "http.server.request.duration"} {
		require.Equal(t, xxhash.Sum64String(s), xxhash.Sum64String(collide(r, xxhash.Sum64String(s))))
	}
}

// oldServiceHash is the former hash of a service: an unkeyed hash of strings that senders choose, combined by
// an invertible function.
func oldServiceHash(organizationID string, k assay.ServiceKey) uint64 {
	h := xxhash.Sum64String(organizationID)
	for _, part := range [...]string{k.Namespace, k.Name, k.Environment, k.Version} {
		h = delta.Mix(h, xxhash.Sum64String(part))
	}
	return h
}

// oldTraceFactor is the former factor for organization numbers in the hash of trace verdicts.
const oldTraceFactor = 0x9e3779b97f4a7c15

// versionLike returns a version with which a service of one organization has the old hash of a service of
// another.
func versionLike(r *rand.Rand, organizationID string, k assay.ServiceKey, hash uint64) string {
	h := xxhash.Sum64String(organizationID)
	for _, part := range [...]string{k.Namespace, k.Name, k.Environment} {
		h = delta.Mix(h, xxhash.Sum64String(part))
	}
	// Mix is the finaliser of SplitMix64 over h*0x9e3779b97f4a7c15 + version.
	x := hash
	x ^= x>>31 ^ x>>62
	x *= inverse(0x94d049bb133111eb)
	x ^= x>>27 ^ x>>54
	x *= inverse(0xbf58476d1ce4e5b9)
	x ^= x>>30 ^ x>>60
	return collide(r, x-h*0x9e3779b97f4a7c15)
}

// victim is a service that every organization has.
var victim = assay.ServiceKey{Namespace: "shop", Name: "cart", Environment: "production", Version: "1.4.2"}

// vocabulary holds the words of the telemetry of a run: common words, and words that collide with them.
type vocabulary struct {
	versions, spans, metrics, attributes, values []string
}

func newVocabulary(r *rand.Rand, ids []string) vocabulary {
	twins := func(words ...string) (all []string) {
		for _, w := range words {
			all = append(all, w, collide(r, xxhash.Sum64String(w)))
		}
		return all
	}
	v := vocabulary{
		versions:   []string{victim.Version},
		spans:      twins("GET /cart", "SELECT carts", "reserve"),
		metrics:    twins("cart.size", "http.server.request.duration", "queue_depth"),
		attributes: twins("http.route", "user.tier"),
		values:     twins("gold", "/cart/{id}", "silver"),
	}
	for _, attacker := range ids {
		for _, attacked := range ids {
			if attacker != attacked {
				v.versions = append(v.versions, versionLike(r, attacker, victim, oldServiceHash(attacked, victim)),
					versionLike(r, attacker, victim, oldServiceHash(attacked, victim)-oldTraceFactor),
					versionLike(r, attacker, victim, oldServiceHash(attacked, victim)+oldTraceFactor))
			}
		}
	}
	return v
}

// step is one action in a run.
type step struct {
	tenant  int // sender of the request; -1: none
	request Request
	advance time.Duration
	action  string // "close", "score", "stop" or "kill"
}

// play generates a run with a number of organizations.
func play(r *rand.Rand, v vocabulary, tenants int) (steps []step) {
	pick := func(words []string) string { return words[r.IntN(len(words))] }
	now := T0
	trace := 0
	request := func() Request {
		resource := Attrs("service.name", victim.Name, "service.namespace", victim.Namespace, "deployment.environment.name", victim.Environment,
			"service.version", pick(v.versions), "service.instance.id", fmt.Sprint("i", r.IntN(3)), "host.name", fmt.Sprint("h", r.IntN(3)))
		switch r.IntN(4) {
		case 0, 1:
			var spans []*tracepb.Span
			trace = max(trace, r.IntN(trace+2))
			id := max(0, trace-r.IntN(3)) // the same ids in all organizations, across several requests
			for i := range 1 + r.IntN(30) {
				spans = append(spans, Span(id, 1+r.IntN(40), r.IntN(45), func(s *tracepb.Span) {
					s.Name = pick(v.spans)
					s.Kind = tracepb.Span_SpanKind(1 + r.IntN(3))
					s.StartTimeUnixNano, s.EndTimeUnixNano = Nano(now)-uint64(1+i%9)*1_000_000, Nano(now)
					s.Attributes = Attrs(pick(v.attributes), pick(v.values), "http.method", "GET", "password", "hunter2")[r.IntN(3):]
				}))
			}
			return Traces(Spans(resource, spans...))
		case 2:
			name := pick(v.metrics)
			return MetricsRequest(Metrics(resource,
				Gauge(name, pick([]string{"s", "ms", "{request}"}), Point(now, pick(v.attributes), pick(v.values))),
				Histogram(pick(v.metrics), "s", now, []float64{1, 2, float64(3 + r.IntN(2))}, pick(v.attributes), pick(v.values))))
		default:
			return LogsRequest(Logs(resource, Log(fmt.Sprint("order ", r.IntN(5), " of ", pick(v.values)), func(l *logspb.LogRecord) {
				l.TimeUnixNano = Nano(now)
				l.SeverityNumber = logspb.SeverityNumber(r.IntN(24))
			})))
		}
	}
	for range 120 {
		switch r.IntN(12) {
		case 0:
			steps = append(steps, step{tenant: -1, action: "close"}, step{tenant: -1, action: "score"})
		case 1:
			s := step{tenant: -1, advance: time.Duration(r.IntN(50)) * time.Second}
			now = now.Add(s.advance)
			steps = append(steps, s)
		case 2:
			steps = append(steps, step{tenant: -1, action: []string{"stop", "kill"}[r.IntN(2)]})
		default:
			steps = append(steps, step{tenant: r.IntN(tenants), request: request()})
		}
	}
	return append(steps, step{tenant: -1, advance: 11 * time.Minute}, step{tenant: -1, action: "close"}, step{tenant: -1, action: "score"})
}

// errKilled is the error of every call of a killed process.
var errKilled = errors.New("the process was killed")

// stage is a store and the process that uses it.
type stage struct {
	t       *testing.T
	store   opened
	ids     []string // organizations; "" for those that do not take part
	mu      sync.Mutex
	now     time.Time
	lives   int
	current *actor
}

// actor is one process: an engine and its view of the store until it is killed.
type actor struct {
	opened
	engine.JournalStore
	stage  *stage
	name   string
	engine *engine.Engine
	killed bool
}

func (s *stage) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *stage) start() {
	s.lives++
	a := &actor{opened: s.store, JournalStore: s.store.(engine.JournalStore), stage: s, name: fmt.Sprint("life", s.lives)}
	a.engine = engine.New(engine.Config{
		Store: a, Now: s.clock, CommitInterval: time.Microsecond, Trace: trace.Config{Idle: 20 * time.Second},
		Journal: &engine.JournalConfig{Name: "replica", Store: a, Leases: a, RestartGrace: -1},
	})
	s.current = a
	require.NoError(s.t, a.engine.TakeOver(s.t.Context()))
}

func (a *actor) dead() error {
	a.stage.mu.Lock()
	defer a.stage.mu.Unlock()
	if a.killed {
		return errKilled
	}
	return nil
}

func (a *actor) Commit(ctx context.Context, now time.Time, requests []delta.Request, merge func([]bool) *delta.Delta) error {
	if err := a.dead(); err != nil {
		return err
	}
	return a.opened.Commit(ctx, now, requests, merge)
}

// Holder implements engine.Leases.
func (a *actor) Holder() string { return a.name }

// Acquire implements engine.Leases. It also acquires the store's own lease, which the store's transactions
// check.
func (a *actor) Acquire(ctx context.Context, name string) (bool, error) {
	if err := a.dead(); err != nil {
		return false, err
	}
	held, _, err := a.opened.(leaser).AcquireLeases(ctx, a.name, []string{name}, time.Minute)
	return len(held) == 1, err
}

// Release implements engine.Leases. The leases of a process are released when it exits.
func (a *actor) Release(context.Context, string) error { return a.dead() }

type leaser interface {
	AcquireLeases(ctx context.Context, holder string, names []string, ttl time.Duration) (held []string, now time.Time, err error)
	ReleaseLeases(ctx context.Context, holder string) error
}

func (s *stage) end(kill bool) {
	a := s.current
	if kill {
		s.mu.Lock()
		a.killed = true
		s.mu.Unlock()
	}
	require.NoError(s.t, a.engine.Close(s.t.Context()))
	require.NoError(s.t, s.store.(leaser).ReleaseLeases(s.t.Context(), a.name)) // as if they had expired
}

// run runs the steps of the organizations that take part.
func (s *stage) run(steps []step) {
	s.start()
	for _, st := range steps {
		e := s.current.engine
		switch {
		case st.tenant >= 0 && s.ids[st.tenant] != "":
			_, err := e.Ingest(s.t.Context(), s.ids[st.tenant], st.request.Signal, st.request.Body)
			require.NoError(s.t, err)
		case st.advance > 0:
			s.mu.Lock()
			s.now = s.now.Add(st.advance)
			s.mu.Unlock()
		case st.action == "close":
			require.NoError(s.t, e.CloseTraces(s.t.Context()))
		case st.action == "score":
			require.NoError(s.t, score.New(score.Config{Store: s.store, Now: s.clock}).Round(s.t.Context()))
		case st.action != "":
			s.end(st.action == "kill")
			s.start()
		}
	}
	s.end(false)
}

// seen is the state that an organization sees.
type seen struct {
	Services []*assay.Service
	Insights []*assay.Insight
	Usage    []*assay.ServiceUsage
	Logs     assay.SeverityCounts
}

func (s *stage) see(id string) (all seen) {
	t := s.t
	var err error
	all.Services, _, err = s.store.FindServices(t.Context(), id, assay.Page{Limit: 1000})
	require.NoError(t, err)
	all.Insights, _, err = s.store.FindInsights(t.Context(), assay.InsightFilter{OrganizationID: id, Page: assay.Page{Limit: 1000}})
	require.NoError(t, err)
	all.Usage, err = s.store.(assay.UsageStore).FindUsage(t.Context(), id)
	require.NoError(t, err)
	logs, err := s.store.(assay.LogRecordStore).LogRecords(t.Context(), id, time.Unix(0, 0), time.Now().AddDate(100, 0, 0), time.Minute)
	require.NoError(t, err)
	for i := range logs {
		all.Logs.Add(&logs[i].Counts)
	}
	return all
}

// Ids of rows and organizations differ between stores.
var sameButIDs = cmp.Options{
	cmpopts.IgnoreFields(assay.Service{}, "ID", "OrganizationID"),
	cmpopts.IgnoreFields(assay.Score{}, "ID"),
	cmpopts.IgnoreFields(assay.Insight{}, "ID", "OrganizationID"),
	cmpopts.SortSlices(func(a, b *assay.Service) bool { return fmt.Sprint(a.ServiceKey) < fmt.Sprint(b.ServiceKey) }),
	cmpopts.SortSlices(func(a, b *assay.Insight) bool {
		return fmt.Sprint(a.Service.ServiceKey, a.Type) < fmt.Sprint(b.Service.ServiceKey, b.Type)
	}),
	cmpopts.SortSlices(func(a, b *assay.ServiceUsage) bool {
		return fmt.Sprint(a.Service.ServiceKey) < fmt.Sprint(b.Service.ServiceKey)
	}),
	cmpopts.SortSlices(func(a, b assay.InsightUsage) bool { return a.Type < b.Type }),
}

// TestOrganizationsAlone checks that each organization sees the same state as if it were alone, whatever the
// others send: the same words, words with colliding hashes and the same trace ids, across restarts and
// crashes.
func TestOrganizationsAlone(t *testing.T) {
	t.Parallel()
	const tenants = 3
	for range 4 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 0))
			open := func() *stage {
				s := &stage{t: t, now: T0}
				s.store = openNew(t, s.clock)
				t.Cleanup(func() { require.NoError(t, s.store.Close()) })
				for i := range tenants {
					o := &assay.Organization{Name: fmt.Sprint("tenant-", i), Tier: assay.TierFree}
					require.NoError(t, s.store.CreateOrganization(t.Context(), o))
					s.ids = append(s.ids, o.ID)
				}
				return s
			}
			together := open()
			steps := play(r, newVocabulary(r, together.ids), tenants)
			together.run(steps)
			for i := range tenants {
				alone := open()
				for j := range alone.ids {
					if j != i {
						alone.ids[j] = ""
					}
				}
				alone.run(steps)
				want, got := alone.see(alone.ids[i]), together.see(together.ids[i])
				require.NotEmpty(t, want.Insights)
				if d := cmp.Diff(want, got, sameButIDs); d != "" {
					t.Fatalf("state of tenant %d differs (- alone, + with others):\n%s", i, d)
				}
			}
		})
	}
}

// TestEvidenceHasNoForeignText checks that text of one organization is in no response to another.
func TestEvidenceHasNoForeignText(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := &stage{t: t, now: T0}
	s.store = openNew(t, s.clock)
	defer func() { require.NoError(t, s.store.Close()) }()
	for _, name := range []string{"attacker", "attacked"} {
		o := &assay.Organization{Name: name, Tier: assay.TierFree}
		require.NoError(t, s.store.CreateOrganization(t.Context(), o))
		s.ids = append(s.ids, o.ID)
	}
	send := func(tenant int, mark, version string) step {
		resource := Attrs("service.name", victim.Name, "service.namespace", victim.Namespace, "deployment.environment.name", victim.Environment,
			"service.version", version, "host.name", mark+"-host")
		var spans []*tracepb.Span
		for i := range 12 {
			spans = append(spans, Span(1, 1+i, 99, func(sp *tracepb.Span) {
				sp.Name, sp.Kind = mark+"-span", tracepb.Span_SPAN_KIND_INTERNAL
				sp.EndTimeUnixNano = Nano(T0)
			}))
		}
		return step{tenant: tenant, request: Traces(Spans(resource, spans...))}
	}
	version := versionLike(r, s.ids[0], victim, oldServiceHash(s.ids[1], victim)-oldTraceFactor)
	k := victim
	k.Version = version
	require.Equal(t, oldServiceHash(s.ids[1], victim)-oldTraceFactor, oldServiceHash(s.ids[0], k))
	s.run([]step{
		send(1, "attacked", victim.Version), send(0, "attacker", version),
		{tenant: -1, advance: time.Minute},
		{tenant: -1, action: "close"},
		{tenant: -1, action: "score"},
	})
	for i, other := range []string{"attacked", "attacker"} {
		all := s.see(s.ids[i])
		require.NotEmpty(t, all.Insights)
		var text bytes.Buffer
		for _, x := range all.Insights {
			fmt.Fprintln(&text, x.Attributes)
		}
		require.NotContains(t, text.String(), other)
	}
}
