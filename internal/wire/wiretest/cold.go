// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"assay/internal/wire"
)

// Cold describes large requests that real exporters send once: no resource, series or
// value in them has been seen before, as after a restart of the server. These requests
// take the most work of all legitimate ones.
type Cold struct {
	Name   string
	Signal wire.Signal
	build  func(at pcommon.Timestamp, size int) []byte
}

// Request returns a request of at least size bytes, whose records happen at the given time.
func (c Cold) Request(at time.Time, size int) []byte {
	return c.build(pcommon.NewTimestampFromTime(at), size)
}

// Colds returns a request of each kind.
func Colds() []Cold {
	return []Cold{
		{"scrape of kube-state-metrics", wire.Metrics, clusterState},
		{"scrapes of 300 metrics a pod", wire.Metrics, podScrapes},
		{"metrics of pods", wire.Metrics, func(at pcommon.Timestamp, size int) []byte { return podMetrics(at, size, 300) }},
		{"metrics of functions", wire.Metrics, func(at pcommon.Timestamp, size int) []byte { return podMetrics(at, size, 1) }},
		{"spans of pods", wire.Traces, podSpans},
		{"log records of pods", wire.Logs, func(at pcommon.Timestamp, size int) []byte { return podLogs(at, size, 20, 2) }},
		{"log records of functions", wire.Logs, func(at pcommon.Timestamp, size int) []byte { return podLogs(at, size, 1, 1) }},
	}
}

// A pod of a cluster. Each service has so many pods.
func pod(r pcommon.Resource, i, pods int) {
	service := i / pods
	a := r.Attributes()
	a.PutStr("service.name", fmt.Sprintf("service-%d", service))
	a.PutStr("service.namespace", fmt.Sprintf("team-%d", service%20))
	a.PutStr("service.version", fmt.Sprintf("1.%d.0", service%30))
	a.PutStr("service.instance.id", uuid(i))
	a.PutStr("deployment.environment.name", "production")
	a.PutStr("k8s.cluster.name", "eu-1")
	a.PutStr("k8s.namespace.name", fmt.Sprintf("team-%d", service%20))
	a.PutStr("k8s.deployment.name", fmt.Sprintf("service-%d", service))
	a.PutStr("k8s.pod.name", podName(i))
	a.PutStr("k8s.pod.uid", uuid(i))
	a.PutStr("k8s.node.name", fmt.Sprintf("node-%d.internal", i%50))
	a.PutStr("telemetry.sdk.language", "go")
	a.PutStr("telemetry.sdk.name", "opentelemetry")
	a.PutStr("telemetry.sdk.version", "1.38.0")
}

func uuid(i int) string {
	return fmt.Sprintf("%08x-8e3a-4c5f-9d2b-%012x", uint32(i)*0x9e3779b1, uint64(i)*0x9e3779b97f4a&0xffffffffffff)
}

func podName(i int) string {
	return fmt.Sprintf("service-%d-6f7d9c8b5-%05x", i/20, uint32(i)*0x9e3779b1>>12)
}

// clusterState is an export of kube-state-metrics: one or several data points for each pod, of each of 40
// metrics of one service.
func clusterState(at pcommon.Timestamp, size int) []byte {
	const metrics, perPoint = 40, 230
	pods := 1 + size/(metrics*perPoint)
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	pod(rm.Resource(), 0, 1)
	list := rm.ScopeMetrics().AppendEmpty().Metrics()
	for i := range metrics {
		m := list.AppendEmpty()
		m.SetName(fmt.Sprintf("kube_pod_status_%d", i))
		m.SetDescription("The state of the pods.")
		points := m.SetEmptyGauge().DataPoints()
		for j := range pods {
			p := points.AppendEmpty()
			p.SetTimestamp(at)
			p.SetDoubleValue(1)
			a := p.Attributes()
			a.PutStr("namespace", fmt.Sprintf("team-%d", j%20))
			a.PutStr("pod", podName(j))
			a.PutStr("uid", uuid(j))
			a.PutStr("node", fmt.Sprintf("node-%d.internal", j%50))
			a.PutStr("phase", "Running")
		}
	}
	return MarshalMetrics(md)
}

// podScrapes is the first scrape of pods that expose some hundred metrics each.
func podScrapes(at pcommon.Timestamp, size int) []byte {
	const metrics, perPod = 300, 300 * 180
	md := pmetric.NewMetrics()
	for i := range 1 + size/perPod {
		rm := md.ResourceMetrics().AppendEmpty()
		pod(rm.Resource(), i, 20)
		list := rm.ScopeMetrics().AppendEmpty().Metrics()
		for j := range metrics {
			m := list.AppendEmpty()
			m.SetName(fmt.Sprintf("service_%d_operations_%d_total", i/20, j))
			m.SetDescription("Operations since the start of the process.")
			m.SetUnit("{operation}")
			sum := m.SetEmptySum()
			sum.SetIsMonotonic(true)
			for _, result := range []string{"success", "failure"} {
				p := sum.DataPoints().AppendEmpty()
				p.SetStartTimestamp(at)
				p.SetTimestamp(at)
				p.SetDoubleValue(1)
				p.Attributes().PutStr("result", result)
			}
		}
	}
	return MarshalMetrics(md)
}

// podMetrics is a Collector's batch of the first exports of pods.
func podMetrics(at pcommon.Timestamp, size, pods int) []byte {
	const perPod = 3600
	md := pmetric.NewMetrics()
	for i := range 1 + size/perPod {
		rm := md.ResourceMetrics().AppendEmpty()
		pod(rm.Resource(), i, pods)
		sm := rm.ScopeMetrics().AppendEmpty()
		sm.Scope().SetName("go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp")
		sm.Scope().SetVersion("0.63.0")
		for _, name := range []string{"http.server.request.duration", "http.server.request.body.size", "http.client.request.duration"} {
			m := sm.Metrics().AppendEmpty()
			m.SetName(name)
			m.SetUnit("s")
			h := m.SetEmptyHistogram()
			for j := range 3 {
				p := h.DataPoints().AppendEmpty()
				p.SetStartTimestamp(at)
				p.SetTimestamp(at)
				p.SetCount(10)
				p.SetSum(1)
				p.ExplicitBounds().FromRaw([]float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10})
				p.BucketCounts().FromRaw(make([]uint64, 15))
				a := p.Attributes()
				a.PutStr("http.request.method", "GET")
				a.PutStr("http.route", fmt.Sprintf("/v1/things/%d", j))
				a.PutInt("http.response.status_code", 200)
				a.PutStr("server.address", podName(i))
			}
		}
	}
	return MarshalMetrics(md)
}

// podSpans is a Collector's batch of the spans of pods.
func podSpans(at pcommon.Timestamp, size int) []byte {
	const perPod, spans = 3600, 8
	td := ptrace.NewTraces()
	for i := range 1 + size/perPod {
		rs := td.ResourceSpans().AppendEmpty()
		pod(rs.Resource(), i, 20)
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName("go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp")
		for j := range spans {
			s := ss.Spans().AppendEmpty()
			n := i*spans + j
			s.SetTraceID([16]byte{1, 2, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
			s.SetSpanID([8]byte{1, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
			s.SetKind(ptrace.SpanKindServer)
			s.SetName(fmt.Sprintf("GET /v1/things/%d", j))
			s.SetStartTimestamp(at)
			s.SetEndTimestamp(at)
			a := s.Attributes()
			a.PutStr("http.request.method", "GET")
			a.PutStr("http.route", fmt.Sprintf("/v1/things/%d", j))
			a.PutStr("url.path", "/v1/things/"+uuid(n))
			a.PutStr("client.address", fmt.Sprintf("10.0.%d.%d", n>>8&255, n&255))
			a.PutInt("network.peer.port", int64(30000+n%30000))
			a.PutStr("user_agent.original", fmt.Sprintf("agent/%d", n))
			a.PutInt("http.response.status_code", 200)
		}
	}
	return MarshalTraces(td)
}

// podLogs is a Collector's batch of the log files of pods.
func podLogs(at pcommon.Timestamp, size, pods, lines int) []byte {
	perPod := 620 + 190*lines
	ld := plog.NewLogs()
	for i := range 1 + size/perPod {
		rl := ld.ResourceLogs().AppendEmpty()
		pod(rl.Resource(), i, pods)
		records := rl.ScopeLogs().AppendEmpty().LogRecords()
		for j := range lines {
			r := records.AppendEmpty()
			r.SetTimestamp(at)
			r.SetObservedTimestamp(at)
			r.SetSeverityNumber(plog.SeverityNumberInfo)
			r.SetSeverityText("INFO")
			r.Body().SetStr(fmt.Sprintf("request %s of user %d took %d ms", uuid(i*2+j), i, j))
			r.Attributes().PutStr("log.file.path", "/var/log/pods/"+podName(i)+"/0.log")
			r.Attributes().PutStr("log.iostream", "stdout")
		}
	}
	return MarshalLogs(ld)
}
