// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"assay/internal/lists"
)

// Service is a simulated service with its defects.
type Service struct {
	Name  string
	Fails []string // ids of the rules that it fails, sorted; empty for a healthy service
	About string   // short description of the defects
}

// Services returns the simulated services, as a new slice.
func Services() []Service {
	return lists.Map(fleet, func(m member) Service { return m.Service })
}

// member is a service of the fleet with its transport and telemetry.
type member struct {
	Service
	transport transport
	emit      func(g *generator, at time.Time, b *batch) // telemetry of a round
	once      func(g *generator, at time.Time, b *batch) // telemetry at the start and in every new hour; may be nil
}

// fleet is in the order of Services.
var fleet = []member{
	{
		Service:   Service{Name: "storefront", About: "healthy"},
		transport: overGRPC,
		emit:      (*generator).storefront,
	},
	{
		Service:   Service{Name: "checkout", About: "healthy"},
		transport: overHTTP,
		emit:      (*generator).checkout,
	},
	{
		Service:   Service{Name: "cart", Fails: []string{"MET-002", "MET-005", "RES-001"}, About: "replicas cannot be told apart, metrics without units"},
		transport: overJSON,
		emit:      (*generator).cart,
	},
	{
		Service:   Service{Name: "accounts", Fails: []string{"LOG-003", "MET-008", "RES-006", "SPA-006"}, About: "leaks e-mail addresses and card numbers"},
		transport: overJSON,
		emit:      (*generator).accounts,
	},
	{
		Service:   Service{Name: "pricing", Fails: []string{"LOG-001", "LOG-002"}, About: "debug logs in production for weeks"},
		transport: overGRPC,
		emit:      (*generator).pricing,
		once:      (*generator).pricingHistory,
	},
	{
		Service:   Service{Name: "recommender", Fails: []string{"SDK-001", "SPA-001", "SPA-005"}, About: "a span for every function, on an old Python"},
		transport: overHTTP,
		emit:      (*generator).recommender,
	},
	{
		Service: Service{
			Name:  "courier",
			Fails: []string{"MET-003", "MET-004", "MET-007", "RES-002", "RES-003", "RES-004"},
			About: "two pods with one instance id, units that change",
		},
		transport: overGRPC,
		emit:      (*generator).courier,
	},
	{
		Service:   Service{Name: "search", Fails: []string{"MET-001", "MET-006", "SPA-003"}, About: "ids in span names and metric attributes"},
		transport: overHTTP,
		emit:      (*generator).search,
		once:      (*generator).searchBurst,
	},
	{
		Service:   Service{Name: "edge", Fails: []string{"RES-007", "SPA-002", "SPA-004"}, About: "traces without their beginning"},
		transport: overHTTP,
		emit:      (*generator).edge,
	},
	{
		Service:   Service{Name: "unknown_service", Fails: []string{"RES-005", "RES-010"}, About: "a job without a name, with a password on its command line"},
		transport: overJSON,
		emit:      (*generator).nameless,
	},
}

// Histogram bounds of the semantic conventions, in seconds.
var secondsBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// generator generates telemetry. It is not safe for concurrent use.
type generator struct {
	rng     *rand.Rand
	sources map[string]*source
}

func newGenerator(seed uint64) *generator {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 0)), sources: map[string]*source{}}
	goRuntime := attributes{"telemetry.sdk.name": "opentelemetry", "telemetry.sdk.language": "go", "telemetry.sdk.version": "1.47.0", "process.runtime.name": "go", "process.runtime.version": "go1.26.8"}
	java := attributes{"telemetry.sdk.name": "opentelemetry", "telemetry.sdk.language": "java", "telemetry.sdk.version": "1.52.0", "process.runtime.version": "21.0.4+7"}
	node := attributes{"telemetry.sdk.name": "opentelemetry", "telemetry.sdk.language": "nodejs", "telemetry.sdk.version": "2.1.0", "process.runtime.version": "22.9.0"}
	python := attributes{"telemetry.sdk.name": "opentelemetry", "telemetry.sdk.language": "python", "telemetry.sdk.version": "1.42.0", "process.runtime.version": "3.12.6"}

	g.add("storefront", "2.3.1", goRuntime)
	g.add("checkout", "5.0.2", java)
	g.add("cart", "1.8.0", goRuntime, attributes{"service.instance.id": nil})
	g.add("accounts", "3.1.4", python, attributes{"service.criticality": "very high"})
	g.add("pricing", "0.9.7", goRuntime)
	g.add("recommender", "1.1.0", python, attributes{"process.runtime.version": "3.8.18"})
	courier := g.add("courier", "4.2.0", java, attributes{
		"k8s.pod.uid": nil, "k8s.pod.name": "courier-7c9d-x2x4q", "host.ip": []string{"10.20.0.17"},
	})
	g.sources["courier-2"] = &source{resource: with(courier.resource, attributes{"k8s.pod.name": "courier-7c9d-m8plz"}), scope: courier.scope}
	g.add("search", "7.5.0", node)
	g.add("edge", "1.0.0", attributes{"deployment.environment.name": nil})
	g.add("", "", python, attributes{
		"process.command_args": []string{"import.py", "--user=batch", "--password=correct-horse-7"},
	})
	return g
}

// add describes the process of a service: a pod with all recommended resource attributes, modified by more.
func (g *generator) add(name, version string, more ...attributes) *source {
	base := attributes{
		"service.name":                name,
		"service.namespace":           "lampshop",
		"service.version":             version,
		"service.instance.id":         g.uuid(),
		"service.criticality":         "high",
		"deployment.environment.name": "production",
		"k8s.cluster.name":            "demo",
		"k8s.namespace.name":          "lampshop",
		"k8s.pod.name":                name + "-6f5d-k7t2w",
		"k8s.pod.uid":                 g.uuid(),
	}
	if name == "" {
		base = with(base, attributes{"service.name": nil, "service.version": nil, "k8s.pod.name": "import-29381-tq5rw"})
	}
	for _, m := range more {
		base = with(base, m)
	}
	s := &source{resource: base, scope: "com.example.lampshop." + name}
	if name == "" {
		s.scope = "com.example.lampshop.job"
	}
	g.sources[name] = s
	return s
}

func (g *generator) uuid() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], g.rng.Uint64())
	binary.BigEndian.PutUint64(b[8:], g.rng.Uint64())
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (g *generator) traceID() []byte {
	return binary.BigEndian.AppendUint64(g.spanID(), g.rng.Uint64())
}

func (g *generator) spanID() []byte {
	return binary.BigEndian.AppendUint64(nil, g.rng.Uint64()|1)
}

// millis returns a random duration between two numbers of milliseconds.
func (g *generator) millis(low, high int) time.Duration {
	return time.Duration(low+g.rng.IntN(high-low)) * time.Millisecond
}

// request adds a server span with a child that queries a database, the duration of the request as a metric, and a log
// record.
func (g *generator) request(b *batch, s *source, at time.Time, method, route string, more attributes) {
	trace, root := g.traceID(), g.spanID()
	took := g.millis(20, 180)
	begin := at.Add(-took)
	http := attributes{"http.request.method": method, "http.route": route, "http.response.status_code": 200}
	b.span(s, trace, begin, span{id: root, name: method + " " + route, kind: kindServer, duration: took, attributes: with(http, more)})
	b.span(s, trace, begin, span{
		id: g.spanID(), parent: root, name: "SELECT lampshop.items", kind: kindClient,
		start: took / 4, duration: took / 2,
		attributes: attributes{"db.system.name": "postgresql", "db.namespace": "lampshop", "db.query.text": "SELECT * FROM items WHERE id = ?"},
	})
	b.histogram(s, at, "http.server.request.duration", "s", secondsBounds, took.Seconds(), http)
}

func (g *generator) storefront(at time.Time, b *batch) {
	s := g.sources["storefront"]
	g.request(b, s, at, "GET", "/lamps/{lamp}", attributes{"url.path": "/lamps/42"})
	b.gauge(s, at, "storefront.visitors", "{visitor}", float64(20+g.rng.IntN(60)), nil)
	b.log(s, at, severityInfo, "page rendered", attributes{"page": "lamp"})
}

func (g *generator) checkout(at time.Time, b *batch) {
	s := g.sources["checkout"]
	g.request(b, s, at, "POST", "/orders", nil)
	b.gauge(s, at, "checkout.order.value", "{euro}", 10+90*g.rng.Float64(), nil)
	b.log(s, at, severityInfo, "order placed", attributes{"order.items": 1 + g.rng.IntN(4)})
}

func (g *generator) cart(at time.Time, b *batch) {
	s := g.sources["cart"]
	g.request(b, s, at, "PUT", "/carts/{cart}", nil)
	b.gauge(s, at, "cart.items", "", float64(g.rng.IntN(9)), nil)
	b.gauge(s, at, "cart.lifetime.seconds", "s", 600*g.rng.Float64(), nil)
	b.log(s, at, severityInfo, "cart updated", nil)
}

func (g *generator) accounts(at time.Time, b *batch) {
	s := g.sources["accounts"]
	account := []string{"mia.lund@example.com", "jo.berg@example.org", "sam.ito@example.net"}[g.rng.IntN(3)]
	g.request(b, s, at, "GET", "/accounts", attributes{"url.query": "email=" + account})
	b.gauge(s, at, "accounts.logins", "{login}", 1, attributes{"account": account})
	b.log(s, at, severityWarn, "card 4111 1111 1111 1111 declined for "+account, nil)
}

func (g *generator) pricing(at time.Time, b *batch) {
	s := g.sources["pricing"]
	g.request(b, s, at, "GET", "/prices/{lamp}", nil)
	b.log(s, at, severityDebug, "price computed", attributes{"rule": "summer"})
	b.log(s, at, severityUnspecified, "cache warmed", nil)
}

// debugDays exceeds the 14 days that LOG-001 allows.
const debugDays = 20

func (g *generator) pricingHistory(at time.Time, b *batch) {
	for day := range debugDays {
		b.log(g.sources["pricing"], at.AddDate(0, 0, -day), severityDebug, "price computed", attributes{"rule": "summer"})
	}
}

func (g *generator) recommender(at time.Time, b *batch) {
	s := g.sources["recommender"]
	trace, root := g.traceID(), g.spanID()
	const steps = 26 // exceeds the limits of 10 internal and 20 short spans
	took := 200 * time.Millisecond
	begin := at.Add(-took)
	b.span(s, trace, begin, span{
		id: root, name: "GET /recommendations", kind: kindServer, duration: took,
		attributes: attributes{"http.request.method": "GET", "http.route": "/recommendations", "http.response.status_code": 200},
	})
	for i := range steps {
		b.span(s, trace, begin, span{
			id: g.spanID(), parent: root, name: []string{"normalize", "score", "rank", "filter"}[i%4], kind: kindInternal,
			start: time.Duration(i) * 5 * time.Millisecond, duration: time.Duration(200+g.rng.IntN(3000)) * time.Microsecond,
		})
	}
	b.histogram(s, at, "http.server.request.duration", "s", secondsBounds, took.Seconds(), attributes{"http.request.method": "GET", "http.route": "/recommendations"})
	b.log(s, at, severityInfo, "recommendations served", attributes{"recommendations": 12})
}

func (g *generator) courier(at time.Time, b *batch) {
	first, second := g.sources["courier"], g.sources["courier-2"]
	g.request(b, first, at, "GET", "/parcels/{parcel}", attributes{"k8s.pod.name": "courier-7c9d-x2x4q"})
	g.request(b, second, at, "POST", "/parcels", attributes{"k8s.pod.name": "courier-7c9d-m8plz"})
	b.gauge(first, at, "courier.route.distance", "km", 3.2, nil)
	b.gauge(second, at, "courier.route.distance", "m", 3200, nil)
	b.histogram(first, at, "courier.parcel.weight", "g", []float64{100, 500, 1000}, 340, nil)
	b.histogram(second, at, "courier.parcel.weight", "g", []float64{250, 1000}, 340, nil)
	b.log(first, at, severityInfo, "parcel on its way", nil)
}

func (g *generator) search(at time.Time, b *batch) {
	s := g.sources["search"]
	g.request(b, s, at, "GET", "/search", nil)
	b.gauge(s, at, "db.response.returned_rows", "{row}", float64(g.rng.IntN(50)), nil) // also an attribute name
	b.log(s, at, severityInfo, "search done", nil)
}

// Counts above the limits of MET-001 and SPA-003, with a margin: counts above 1,024 are estimates.
const (
	manyValues    = 10_000 + 500
	manySpanNames = 1_000 + 20
)

// searchBurst puts an id into every span name and into an attribute of every data point.
func (g *generator) searchBurst(at time.Time, b *batch) {
	s := g.sources["search"]
	begin := at.Add(-time.Second)
	for i := range manySpanNames {
		b.span(s, g.traceID(), begin, span{
			id: g.spanID(), name: fmt.Sprintf("GET /search/%d", i), kind: kindServer, duration: 40 * time.Millisecond,
			attributes: attributes{"http.request.method": "GET"},
		})
	}
	points := make([]*metricspb.NumberDataPoint, manyValues)
	for i := range points {
		points[i] = point(at, 0.04, attributes{"search.query.id": fmt.Sprintf("q%d", i)})
	}
	b.gaugeOf(s, "search.latency", "s", points...)
}

func (g *generator) edge(at time.Time, b *batch) {
	s := g.sources["edge"]
	// The caller, whose span is the parent, does not export.
	b.span(s, g.traceID(), at.Add(-30*time.Millisecond), span{
		id: g.spanID(), parent: g.spanID(), name: "GET", kind: kindServer, duration: 30 * time.Millisecond,
		attributes: attributes{"http.request.method": "GET", "http.response.status_code": 200},
	})
	// A health check starts with the call.
	b.span(s, g.traceID(), at.Add(-20*time.Millisecond), span{
		id: g.spanID(), name: "GET", kind: kindClient, duration: 20 * time.Millisecond,
		attributes: attributes{"http.request.method": "GET", "server.address": "storefront.example.com"},
	})
	b.log(s, at, severityInfo, "request passed on", nil)
}

func (g *generator) nameless(at time.Time, b *batch) {
	s := g.sources[""]
	b.span(s, g.traceID(), at.Add(-time.Second), span{id: g.spanID(), name: "import stock", kind: kindInternal, duration: time.Second})
	b.log(s, at, severityInfo, "stock imported", attributes{"rows": 1200})
}

// history is the length of the history in hours.
const history = 6

// past adds the history of a member to a batch.
func (g *generator) past(m *member, now time.Time, b *batch) {
	for hours := history; hours > 0; hours-- {
		m.emit(g, now.Add(-time.Duration(hours)*time.Hour), b)
	}
	g.hourly(m, now, b)
}

// hourly adds the telemetry that a member sends in every new hour.
func (g *generator) hourly(m *member, now time.Time, b *batch) {
	if m.once != nil {
		m.once(g, now, b)
	}
}
