// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	. "assay/internal/rules/rulestest"
)

// one returns a request with one span of a resource.
func one(resource []Attr) []Request {
	return []Request{Traces(Spans(resource, Span(1, 1, 0)))}
}

// eachSignal returns one record of each signal.
func eachSignal(resource []Attr) map[string]Request {
	return map[string]Request{
		"traces":  Traces(Spans(resource, Span(1, 1, 0))),
		"metrics": MetricsRequest(Metrics(resource, Gauge("queue.length", "{item}"))),
		"logs":    LogsRequest(Logs(resource, Log("hello"))),
	}
}

// without returns a valid resource with one attribute replaced.
func without(key string, more ...any) []Attr {
	list := slices.DeleteFunc(Service("a"), func(a Attr) bool { return a.Key == key })
	return append(list, Attrs(more...)...)
}

func TestResourceRules(t *testing.T) {
	var cases []verdictCase
	add := func(name string, resource []Attr, want ...string) {
		cases = append(cases, verdictCase{name: name, in: one(resource), want: want})
	}

	// RES-001, RES-005, RES-007: every signal; "present" and "a string".
	for signal, q := range eachSignal(nil) {
		cases = append(cases, verdictCase{
			name: "no resource attributes, " + signal, in: []Request{q},
			want: []string{"unknown_service: -RES-001 ~RES-002 ~RES-003 +RES-004 -RES-005 ~RES-006 -RES-007 +RES-010 ~SDK-001"},
		})
	}
	for signal, q := range eachSignal(Service("a")) {
		cases = append(cases, verdictCase{
			name: "a good resource, " + signal, in: []Request{q},
			want: []string{"a: +RES-001 ~RES-002 ~RES-003 +RES-004 +RES-005 ~RES-006 +RES-007 +RES-010 ~SDK-001"},
		})
	}
	for _, v := range []struct {
		name                              string
		value                             any
		instance, service, environment    string
		serviceIsUnknown, environmentIsOK bool
	}{
		{"no value", nil, "-", "-", "-", true, false},
		{"an empty string", "", "-", "-", "-", true, false},
		{"an int", 7, "+", "-", "-", true, false},
		{"a bool", true, "+", "-", "-", true, false},
		{"a double", 1.5, "+", "-", "-", true, false},
		{"bytes", []byte("x"), "+", "-", "-", true, false},
		{"an array", []any{"a"}, "+", "-", "-", true, false},
		{"a map", Attrs("a", "b"), "+", "-", "-", true, false},
		{"a blank", "  ", "+", "+", "+", false, true},
	} {
		add("service.instance.id is "+v.name, without("service.instance.id", "service.instance.id", v.value), "a: "+v.instance+"RES-001")
		add("deployment.environment.name is "+v.name, without("deployment.environment.name", "deployment.environment.name", v.value), "a: "+v.environment+"RES-007")
		name := "unknown_service"
		if !v.serviceIsUnknown {
			name = v.value.(string)
		}
		add("service.name is "+v.name, without("service.name", "service.name", v.value), name+": "+v.service+"RES-005")
	}
	add("the deprecated environment names the service and does not satisfy RES-007",
		without("deployment.environment.name", "deployment.environment", "qa"), "|a|qa|: -RES-007")
	add("the deprecated environment counts where the other is empty",
		without("deployment.environment.name", "deployment.environment.name", "", "deployment.environment", "qa"), "|a|qa|: -RES-007")
	add("the deprecated environment counts where the other is no string",
		without("deployment.environment.name", "deployment.environment.name", 7, "deployment.environment", "qa"), "|a|qa|: -RES-007")
	add("the new environment wins", Service("a", "deployment.environment", "qa"), "|a|test|: +RES-007")
	add("parts that are no strings are empty", Service("a", "service.namespace", 1, "service.version", true), "|a|test|: +RES-005")
	add("parts as sent", Service("A b", "service.namespace", " n ", "service.version", "v1"), " n |A b|test|v1: +RES-005")
	add("a name given twice: the first counts", append(Service("a"), Attrs("service.name", "b")...), "a: +RES-005", "b: absent")
	add("a blank name is no empty name", without("service.name", "service.name", "  "), "  : +RES-005", "unknown_service: absent")
	add("unknown_service sent is a name", Service("unknown_service"), "unknown_service: +RES-005")

	// RES-003
	for key, want := range map[string]string{
		"k8s.pod.name": "-", "k8s.namespace.name": "-", "k8s.deployment.name": "-", "k8s.container.name": "-", "k8s.anything": "-",
		"k8s.": "-", "k8s.clusters.x": "-", "k8s.nodepool": "-", "k8s.pod.label.app": "-",
		"k8s.cluster.name": "~", "k8s.cluster.uid": "~", "k8s.node.name": "~", "k8s.node.label.x": "~", "k8s": "~", "k8sx.pod": "~", "K8S.pod.name": "~", "x.k8s.pod": "~",
	} {
		add("RES-003 "+key, Service("a", key, "x"), "a: "+want+"RES-003")
	}
	for key, want := range map[string]string{
		"k8s.pod.name": "-", "k8s.pod.label.app": "-", "k8s.pod.": "-", "k8s.container.name": "-", "k8s.container.restart_count": "-",
		"k8s.deployment.name": "~", "k8s.namespace.name": "~", "k8s.job.name": "~", "k8s.pod": "~", "k8s.podtemplate.name": "~", "k8s.containers": "~",
		"k8s.cluster.name": "~", "k8s.node.name": "~",
	} {
		add("RES-003 "+key+" without a service", without("service.name", key, "x"), "unknown_service: "+want+"RES-003")
	}
	add("RES-003 with an empty service name", without("service.name", "service.name", "", "k8s.deployment.name", "d"), "unknown_service: ~RES-003")
	add("RES-003 with a uid", Service("a", "k8s.pod.name", "p", "k8s.pod.uid", "u"), "a: +RES-003")
	add("RES-003 with an empty uid", Service("a", "k8s.pod.uid", ""), "a: -RES-003")
	add("RES-003 with a uid alone", Service("a", "k8s.pod.uid", "u"), "a: +RES-003")

	// RES-004 on resources
	for key, want := range map[string]string{
		"http.request.method": "-", "url.full": "-", "http.request.header.x-id": "-", "db.query.text": "-",
		"http.request.header.": "+", "http.request.header": "+", "my.own.key": "+", "host.name": "+", "service.version": "+", "cloud.region": "+",
		"server.address": "+", "server.port": "+", "url.scheme": "+", "url.path": "-", "client.address": "-", "network.peer.address": "-",
	} {
		add("RES-004 resource "+key, Service("a", key, "x"), "a: "+want+"RES-004")
	}

	// RES-006
	for value, want := range map[any]string{
		"mission_critical": "+", "high": "+", "medium": "+", "low": "+", "": "~",
		"High": "-", "critical": "-", " low": "-", "mission-critical": "-", 1: "-", true: "-",
	} {
		add(fmt.Sprintf("RES-006 %q", value), Service("a", "service.criticality", value), "a: "+want+"RES-006")
	}
	add("RES-006 an array", Service("a", "service.criticality", []any{"low"}), "a: -RES-006")

	// RES-010
	for key, value := range map[string]any{"contact": "jane@example.com", "db.password": "hunter2x", "tags": []any{"x", "4111 1111 1111 1111"}} {
		add("RES-010 "+key, Service("a", key, value), "a: -RES-010")
	}
	add("RES-010 in a nested map", Service("a", "cfg", Attrs("x", Attrs("owner", "jane@example.com"))), "a: -RES-010")
	add("RES-010 in a key", Service("a", "jane@example.com", true), "a: -RES-010")
	add("RES-010 in a part of the name, which is shown as sent", Service("jane@example.com"), "jane@example.com: -RES-010")
	add("RES-010 redacted", Service("a", "db.password", "[REDACTED]"), "a: +RES-010")

	// SDK-001
	sdk := func(language, sdk, runtime any) []Attr {
		return Service("a", "telemetry.sdk.language", language, "telemetry.sdk.version", sdk, "process.runtime.version", runtime)
	}
	add("SDK-001 not in the table", sdk("cobol", "1.0.0", "1"), "a: ~SDK-001")
	add("SDK-001 without a runtime version", sdk("go", "1.38.0", nil), "a: ~SDK-001")
	add("SDK-001 with an empty version", sdk("go", "", "go1.25.0"), "a: ~SDK-001")
	add("SDK-001 supported", sdk("go", "1.38.0", "go1.25.0"), "a: +SDK-001")
	add("SDK-001 too old", sdk("go", "v1.38.0", "go1.18.1"), "a: -SDK-001")
	add("SDK-001 the newest major version", sdk("nodejs", "3.0.0", "20.20.2"), "a: -SDK-001")
	add("SDK-001 the newest major version, supported", sdk("nodejs", "3.0.0", "v22.15.0"), "a: +SDK-001")
	add("SDK-001 a language that is no string", sdk(1, "1.38.0", "go1.25.0"), "a: ~SDK-001")

	requireVerdicts(t, cases)
}

// TestInstanceRule tests RES-002.
func TestInstanceRule(t *testing.T) {
	at := func(hour, minute int) time.Time { return time.Date(2026, 10, 15, hour, minute, 0, 0, time.UTC) }
	// sent returns one span at a time, of a service with an instance id.
	sent := func(when time.Time, name string, id any, more ...any) Request {
		resource := append(Attrs("service.name", name, "service.instance.id", id), Attrs(more...)...)
		return Traces(Spans(resource, Span(1, 1, 0, func(s *tracepb.Span) { s.StartTimeUnixNano, s.EndTimeUnixNano = Nano(when), Nano(when) })))
	}
	pair := func(a, b Request) []Request { return []Request{a, b} }
	requireVerdicts(t, []verdictCase{
		{name: "no workload", in: pair(sent(T0, "a", "i"), sent(T0, "a", "i")), want: []string{"a: ~RES-002"}},
		{name: "no instance id", in: pair(sent(T0, "a", "", "host.name", "h"), sent(T0, "a", "", "host.name", "g")), want: []string{"a: ~RES-002"}},
		{name: "an empty workload", in: one(Service("a", "host.name", "")), want: []string{"a: ~RES-002"}},
		{name: "one workload", in: pair(sent(T0, "a", "i", "host.name", "h"), sent(T0, "a", "i", "host.name", "h")), want: []string{"a: +RES-002"}},
		{name: "two hosts in one hour", in: pair(sent(at(10, 0), "a", "i", "host.name", "h"), sent(at(10, 59), "a", "i", "host.name", "g")), want: []string{"a: -RES-002"}},
		{name: "two hosts in two clock hours", in: pair(sent(at(10, 59), "a", "i", "host.name", "h"), sent(at(11, 0), "a", "i", "host.name", "g")), want: []string{"a: +RES-002"}},
		{name: "two instance ids", in: pair(sent(T0, "a", "i", "host.name", "h"), sent(T0, "a", "j", "host.name", "g")), want: []string{"a: +RES-002"}},
		{name: "an id that is an int", in: pair(sent(T0, "a", 7, "host.name", "h"), sent(T0, "a", 7, "host.name", "g")), want: []string{"a: -RES-002"}},
		{name: "two kinds of workload", in: pair(sent(T0, "a", "i", "host.name", "h"), sent(T0, "a", "i", "host.name", "h", "k8s.pod.name", "p")), want: []string{"a: +RES-002"}},
		{name: "the pod comes before the host", in: pair(sent(T0, "a", "i", "host.name", "h", "k8s.pod.name", "p"), sent(T0, "a", "i", "host.name", "g", "k8s.pod.name", "p")), want: []string{"a: +RES-002"}},
		{name: "the pod name comes before its uid", in: pair(sent(T0, "a", "i", "k8s.pod.uid", "1", "k8s.pod.name", "p"), sent(T0, "a", "i", "k8s.pod.uid", "2", "k8s.pod.name", "p")), want: []string{"a: +RES-002"}},
		{name: "an empty pod name is none", in: pair(sent(T0, "a", "i", "k8s.pod.uid", "1", "k8s.pod.name", ""), sent(T0, "a", "i", "k8s.pod.uid", "2", "k8s.pod.name", "")), want: []string{"a: -RES-002"}},
		{name: "pod uid, container", in: pair(sent(T0, "a", "i", "k8s.pod.uid", "1", "container.id", "c"), sent(T0, "a", "i", "k8s.pod.uid", "1", "container.id", "d")), want: []string{"a: +RES-002"}},
		{name: "containers", in: pair(sent(T0, "a", "i", "container.id", "c"), sent(T0, "a", "i", "container.id", "d")), want: []string{"a: -RES-002"}},
		{name: "container before host id", in: pair(sent(T0, "a", "i", "container.id", "c", "host.id", "1"), sent(T0, "a", "i", "container.id", "c", "host.id", "2")), want: []string{"a: +RES-002"}},
		{name: "host id before host name", in: pair(sent(T0, "a", "i", "host.id", "1", "host.name", "x"), sent(T0, "a", "i", "host.id", "1", "host.name", "y")), want: []string{"a: +RES-002"}},
		{name: "host id and host name of one value", in: pair(sent(T0, "a", "i", "host.id", "x"), sent(T0, "a", "i", "host.name", "y")), want: []string{"a: +RES-002"}},
		{
			name: "a pod of one name in two namespaces",
			in:   pair(sent(T0, "a", "i", "k8s.pod.name", "p", "k8s.namespace.name", "x"), sent(T0, "a", "i", "k8s.pod.name", "p", "k8s.namespace.name", "y")),
			want: []string{"a: -RES-002"},
		},
		{
			name: "a namespace counts with a pod name only",
			in:   pair(sent(T0, "a", "i", "host.name", "h", "k8s.namespace.name", "x"), sent(T0, "a", "i", "host.name", "h", "k8s.namespace.name", "y")),
			want: []string{"a: +RES-002"},
		},
		{
			name: "across namespace, version and environment",
			in: append(pair(
				sent(T0, "a", "i", "host.name", "h", "service.namespace", "n", "service.version", "1", "deployment.environment.name", "x"),
				sent(T0, "a", "i", "host.name", "g", "service.namespace", "m", "service.version", "2", "deployment.environment.name", "y")),
				sent(T0, "a", "j", "host.name", "z", "service.version", "3")),
			want: []string{"n|a|x|1: -RES-002", "m|a|y|2: -RES-002", "|a||3: +RES-002"},
		},
		{name: "not across names", in: pair(sent(T0, "a", "i", "host.name", "h"), sent(T0, "b", "i", "host.name", "g")), want: []string{"a: +RES-002", "b: +RES-002"}},
		{
			name: "across signals",
			in: pair(MetricsRequest(Metrics(Service("a", "host.name", "h"), Gauge("x", "1"))),
				LogsRequest(Logs(Service("a", "host.name", "g"), Log("x")))),
			want: []string{"a: -RES-002"},
		},
		{
			name: "a conflict of any hour of the window stays",
			in: append(pair(sent(at(1, 0), "a", "i", "host.name", "h"), sent(at(1, 1), "a", "i", "host.name", "g")),
				sent(T0, "a", "i", "host.name", "h")),
			want: []string{"a: -RES-002"},
		},
		{
			name: "a conflict before the window does not count",
			in: append(pair(sent(After(-31*24*time.Hour), "a", "i", "host.name", "h"), sent(After(-31*24*time.Hour), "a", "i", "host.name", "g")),
				sent(T0, "a", "i", "host.name", "h")),
			want: []string{"a: +RES-002"},
		},
		{name: "a long id", in: pair(sent(T0, "a", strings.Repeat("i", 5000), "host.name", "h"), sent(T0, "a", strings.Repeat("i", 5000)+"j", "host.name", "g")), want: []string{"a: +RES-002"}},
	})
}
