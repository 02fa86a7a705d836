// SPDX-License-Identifier: Apache-2.0

package agentstub

import "time"

// host is where the invented repositories lie. Nothing is there: the domain is
// reserved for examples (RFC 2606).
const host = "https://source.example.com/"

// seeds are what an organization has from the start. All of it is invented.
var seeds = []struct {
	account      string
	repositories []seed
}{
	{"acme-shop", []seed{
		{name: "storefront", language: "TypeScript", file: "src/server.ts", partner: "zipkin", active: true, review: "Requests of health checks need no spans."},
		{name: "checkout", language: "Go", file: "internal/order/place.go", partner: "opencensus", active: true, fix: "One pull request for each finding, please."},
		{name: "payments", language: "Java", file: "src/main/java/payments/Charge.java", partner: "opentracing", review: "Card numbers must never be in an attribute, not even in part."},
		{name: "recommendation", language: "Python", file: "recommendation/rank.py"},
	}},
	{"acme-platform", []seed{
		{name: "ingress", language: "Go", file: "proxy/handler.go", partner: "statsd"},
		{name: "warehouse-sync", language: "Python", file: "sync/jobs.py", partner: "opentracing"},
		{name: "batch-archive", language: "Java", file: "src/main/java/archive/Job.java", broken: true},
	}},
}

// seed is a repository as it is at the start.
type seed struct {
	name     string
	language string
	file     string // where findings are
	partner  string // what the code is instrumented with besides OpenTelemetry; "" for nothing
	active   bool   // as far as the limit allows
	broken   bool   // it cannot be checked out, so that failed runs can be seen
	review   string // instructions for reviews
	fix      string // instructions for fixes
}

// newOrganization returns the world of an organization at its first moment.
func newOrganization(id string, limit int, now time.Time) *organization {
	o := &organization{id: id, now: now, limit: limit, repositories: make(map[string]*repository)}
	for _, s := range seeds {
		in := &installation{id: o.newID("installation", s.account), account: s.account, created: now}
		for _, sr := range s.repositories {
			r := &repository{
				seed: sr, id: o.newID("repo", s.account, sr.name), installation: in,
				active: sr.active && o.active() < limit, updated: now, partner: sr.partner,
			}
			in.repositories = append(in.repositories, r)
			o.repositories[r.id] = r
		}
		o.installations = append(o.installations, in)
	}
	return o
}
