// SPDX-License-Identifier: Apache-2.0

package migrate

import "assay/internal/rules/semconv"

// tagKeys maps tags of OpenTracing, OpenCensus, Zipkin and Datadog to attributes, for tags that are not in the semantic
// conventions.
var tagKeys = map[string]string{
	"db.instance":              "db.namespace",
	"db.type":                  "db.system.name",
	"http.host":                "server.address",
	"http.path":                "url.path",
	"http.useragent":           "user_agent.original",
	"message_bus.destination":  "messaging.destination.name",
	"network.destination.name": "server.address",
	"network.destination.port": "server.port",
	"out.host":                 "server.address",
	"out.port":                 "server.port",
	"peer.address":             "network.peer.address",
	"peer.hostname":            "server.address",
	"peer.ipv4":                "network.peer.address",
	"peer.ipv6":                "network.peer.address",
	"peer.port":                "server.port",
	"sql.query":                "db.query.text",
}

// leftTags maps tags without a counterpart in OpenTelemetry to the reason that steps give.
var leftTags = map[string]string{
	"sampling.priority": "a sampler decides when a span starts",
	"manual.keep":       "a sampler decides when a span starts",
	"manual.drop":       "a sampler decides when a span starts",
	"analytics.event":   "it is a setting of Datadog",
	"service.name":      "a span has the service of its resource",
}

// lateKind is the step for a kind of a span that is set after the start.
const lateKind = "The kind of a span is set when it starts; here it is set later and becomes the attribute span.kind. Set the kind where the span starts."

// attributeKey returns the attribute for the key of a tag. A deprecated attribute becomes its successor.
func attributeKey(key string) string {
	if k := tagKeys[key]; k != "" {
		return k
	}
	if k := semconv.Successor(key); k != "" {
		return k
	}
	return key
}
