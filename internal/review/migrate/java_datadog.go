// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"maps"
	"slices"

	"assay/internal/review/configfile"
	"assay/internal/review/syntax"
)

// The classes of the Datadog tracer. Its spans have OpenTracing's types.
const (
	datadogTrace       = "datadog.trace.api.Trace"
	datadogTags        = "datadog.trace.api.DDTags"
	datadogSpanTypes   = "datadog.trace.api.DDSpanTypes"
	datadogCorrelation = "datadog.trace.api.CorrelationIdentifier"
)

func init() {
	maps.Copy(javaClasses, map[string]javaSource{datadogTrace: {}, datadogTags: {}, datadogSpanTypes: {}, datadogCorrelation: {}})
	maps.Copy(javaConstants, map[string]string{
		datadogTags + ".RESOURCE_NAME": "resource.name", datadogTags + ".SERVICE_NAME": "service.name", datadogTags + ".SPAN_TYPE": "span.type",
		datadogTags + ".MANUAL_KEEP": "manual.keep", datadogTags + ".MANUAL_DROP": "manual.drop", datadogTags + ".ANALYTICS_SAMPLE_RATE": "analytics.event",
		datadogSpanTypes + ".HTTP_CLIENT": "http", datadogSpanTypes + ".HTTP_SERVER": "web", datadogSpanTypes + ".SQL": "sql", datadogSpanTypes + ".REDIS": "redis",
		datadogSpanTypes + ".MONGO": "mongodb", datadogSpanTypes + ".ELASTICSEARCH": "elasticsearch",
	})
	maps.Copy(javaRows, map[string]javaRow{
		datadogCorrelation + ".getTraceId/0": {result: "String", as: javaCorrelation, doc: "`Span.current().getSpanContext().getTraceId()`"},
		datadogCorrelation + ".getSpanId/0":  {result: "String", as: javaCorrelation, doc: "`Span.current().getSpanContext().getSpanId()`"},
	})
}

func javaCorrelation(s *script, c *syntax.Node) (string, bool) {
	s.note(c, "Ids of OpenTelemetry are hexadecimal, those of Datadog decimal: compare the formats of logs that have them.")
	return s.expand("@Span.current().getSpanContext()."+c.Callee().Text+"()", c), true
}

// javaAnnotation rewrites @Trace(operationName = name) to @WithSpan(name), if programs run with the Java agent of
// OpenTelemetry, which reads @WithSpan.
func (s *script) javaAnnotation(n *syntax.Node) (string, bool) {
	name := n.Children[0]
	var args []*syntax.Node
	if name.Kind == syntax.Call {
		name, args = name.Callee(), name.Args()
	}
	if s.typeOf(name) != "class "+datadogTrace {
		return "", false
	}
	if !s.unit.hasJavaAgent() {
		return s.fail(n, "@Trace needs @WithSpan, which the Java agent of OpenTelemetry reads: start the program with it.")
	}
	span := ""
	for _, a := range args {
		if len(args) > 1 || a.Kind != syntax.Argument || a.Text != "operationName" && a.Text != "resourceName" {
			return s.fail(n, "The annotation has settings that no table knows.")
		}
		span = "(" + s.text(a.Value()) + ")"
	}
	s.mark(name)
	return "@" + s.javaUse("WithSpan") + span, true
}

// hasJavaAgent reports whether a deployment file starts a program with the Java agent of OpenTelemetry.
func (u *scriptUnit) hasJavaAgent() bool {
	if u.java.agent == nil {
		found := slices.ContainsFunc(u.paths, func(name string) bool {
			if !configfile.Candidate(name) {
				return false
			}
			source, err := u.read(name)
			return err == nil && bytes.Contains(source, []byte("opentelemetry-javaagent"))
		})
		u.java.agent = &found
	}
	return *u.java.agent
}
