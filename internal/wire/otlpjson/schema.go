// SPDX-License-Identifier: Apache-2.0

package otlpjson

import "strings"

// schema describes a message type.
type schema struct {
	name   string
	nested bool // an ArrayValue or KeyValueList: one level of a value's depth
	fields map[string]*field
}

// field describes a field of a message.
type field struct {
	name     string // in lowerCamelCase
	number   uint8
	kind     kind
	repeated bool
	message  *schema          // for kindMessage
	enum     map[string]int32 // for kindEnum
}

// kind is the protobuf type of a field. The two id types have kinds of their own.
type kind uint8

const (
	kindString kind = iota
	kindBytes
	kindTraceID
	kindSpanID
	kindBool
	kindEnum
	kindInt32
	kindInt64
	kindSint32
	kindUint32
	kindUint64
	kindFixed32
	kindFixed64
	kindSfixed64
	kindDouble
	kindMessage
)

// def is a field with its name in the protobuf definition.
type def struct {
	name string
	field
}

func scalar(name string, number uint8, k kind) def {
	return def{name, field{number: number, kind: k}}
}

func list(name string, number uint8, k kind) def {
	return def{name, field{number: number, kind: k, repeated: true}}
}

func enum(name string, number uint8, values map[string]int32) def {
	return def{name, field{number: number, kind: kindEnum, enum: values}}
}

func one(name string, number uint8, s *schema) def {
	return def{name, field{number: number, kind: kindMessage, message: s}}
}

func many(name string, number uint8, s *schema) def {
	return def{name, field{number: number, kind: kindMessage, message: s, repeated: true}}
}

// set adds fields to s, each under its camelCase and its snake_case name.
func (s *schema) set(defs ...def) *schema {
	s.fields = make(map[string]*field, 2*len(defs))
	for _, d := range defs {
		f := d.field
		f.name = camel(d.name)
		s.fields[d.name], s.fields[f.name] = &f, &f
	}
	return s
}

// camel converts a snake_case name to lowerCamelCase.
func camel(snake string) string {
	words := strings.Split(snake, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

func message(name string, defs ...def) *schema {
	return (&schema{name: name}).set(defs...)
}

var (
	spanKinds = values("SPAN_KIND_", "UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")

	statusCodes = values("STATUS_CODE_", "UNSET", "OK", "ERROR")

	temporalities = values("AGGREGATION_TEMPORALITY_", "UNSPECIFIED", "DELTA", "CUMULATIVE")

	severities = values("SEVERITY_NUMBER_", "UNSPECIFIED", "TRACE", "TRACE2", "TRACE3", "TRACE4", "DEBUG", "DEBUG2", "DEBUG3", "DEBUG4",
		"INFO", "INFO2", "INFO3", "INFO4", "WARN", "WARN2", "WARN3", "WARN4", "ERROR", "ERROR2", "ERROR3", "ERROR4",
		"FATAL", "FATAL2", "FATAL3", "FATAL4")
)

// values numbers the names of an enum, starting at zero.
func values(prefix string, names ...string) map[string]int32 {
	all := make(map[string]int32, len(names))
	for i, n := range names {
		all[prefix+n] = int32(i)
	}
	return all
}

// The schemas of the three requests.
var traces, metrics, logs = requests()

func requests() (traces, metrics, logs *schema) {
	anyValue := &schema{name: "AnyValue"}
	keyValue := message("KeyValue",
		scalar("key", 1, kindString),
		one("value", 2, anyValue),
		scalar("key_strindex", 3, kindInt32))
	array := &schema{name: "ArrayValue", nested: true}
	array.set(many("values", 1, anyValue))
	kvlist := &schema{name: "KeyValueList", nested: true}
	kvlist.set(many("values", 1, keyValue))
	anyValue.set(
		scalar("string_value", 1, kindString),
		scalar("bool_value", 2, kindBool),
		scalar("int_value", 3, kindInt64),
		scalar("double_value", 4, kindDouble),
		one("array_value", 5, array),
		one("kvlist_value", 6, kvlist),
		scalar("bytes_value", 7, kindBytes),
		scalar("string_value_strindex", 8, kindInt32))

	resource := message("Resource",
		many("attributes", 1, keyValue),
		scalar("dropped_attributes_count", 2, kindUint32),
		many("entity_refs", 3, message("EntityRef",
			scalar("schema_url", 1, kindString),
			scalar("type", 2, kindString),
			list("id_keys", 3, kindString),
			list("description_keys", 4, kindString))))
	scope := message("InstrumentationScope",
		scalar("name", 1, kindString),
		scalar("version", 2, kindString),
		many("attributes", 3, keyValue),
		scalar("dropped_attributes_count", 4, kindUint32))

	// request builds the levels above a record. They differ only in their names.
	request := func(name, signal, field string, record *schema) *schema {
		lower := strings.ToLower(signal)
		scoped := message("Scope"+signal,
			one("scope", 1, scope),
			many(field, 2, record),
			scalar("schema_url", 3, kindString))
		entry := message("Resource"+signal,
			one("resource", 1, resource),
			many("scope_"+lower, 2, scoped),
			scalar("schema_url", 3, kindString))
		return message(name, many("resource_"+lower, 1, entry))
	}
	return request("ExportTraceServiceRequest", "Spans", "spans", span(keyValue)),
		request("ExportMetricsServiceRequest", "Metrics", "metrics", metric(keyValue)),
		request("ExportLogsServiceRequest", "Logs", "log_records", logRecord(keyValue, anyValue))
}

func span(keyValue *schema) *schema {
	return message("Span",
		scalar("trace_id", 1, kindTraceID),
		scalar("span_id", 2, kindSpanID),
		scalar("trace_state", 3, kindString),
		scalar("parent_span_id", 4, kindSpanID),
		scalar("name", 5, kindString),
		enum("kind", 6, spanKinds),
		scalar("start_time_unix_nano", 7, kindFixed64),
		scalar("end_time_unix_nano", 8, kindFixed64),
		many("attributes", 9, keyValue),
		scalar("dropped_attributes_count", 10, kindUint32),
		many("events", 11, message("Span.Event",
			scalar("time_unix_nano", 1, kindFixed64),
			scalar("name", 2, kindString),
			many("attributes", 3, keyValue),
			scalar("dropped_attributes_count", 4, kindUint32))),
		scalar("dropped_events_count", 12, kindUint32),
		many("links", 13, message("Span.Link",
			scalar("trace_id", 1, kindTraceID),
			scalar("span_id", 2, kindSpanID),
			scalar("trace_state", 3, kindString),
			many("attributes", 4, keyValue),
			scalar("dropped_attributes_count", 5, kindUint32),
			scalar("flags", 6, kindFixed32))),
		scalar("dropped_links_count", 14, kindUint32),
		one("status", 15, message("Status",
			scalar("message", 2, kindString),
			enum("code", 3, statusCodes))),
		scalar("flags", 16, kindFixed32))
}

func logRecord(keyValue, anyValue *schema) *schema {
	return message("LogRecord",
		scalar("time_unix_nano", 1, kindFixed64),
		enum("severity_number", 2, severities),
		scalar("severity_text", 3, kindString),
		one("body", 5, anyValue),
		many("attributes", 6, keyValue),
		scalar("dropped_attributes_count", 7, kindUint32),
		scalar("flags", 8, kindFixed32),
		scalar("trace_id", 9, kindTraceID),
		scalar("span_id", 10, kindSpanID),
		scalar("observed_time_unix_nano", 11, kindFixed64),
		scalar("event_name", 12, kindString))
}

func metric(keyValue *schema) *schema {
	exemplar := message("Exemplar",
		scalar("time_unix_nano", 2, kindFixed64),
		scalar("as_double", 3, kindDouble),
		scalar("span_id", 4, kindSpanID),
		scalar("trace_id", 5, kindTraceID),
		scalar("as_int", 6, kindSfixed64),
		many("filtered_attributes", 7, keyValue))
	number := message("NumberDataPoint",
		scalar("start_time_unix_nano", 2, kindFixed64),
		scalar("time_unix_nano", 3, kindFixed64),
		scalar("as_double", 4, kindDouble),
		many("exemplars", 5, exemplar),
		scalar("as_int", 6, kindSfixed64),
		many("attributes", 7, keyValue),
		scalar("flags", 8, kindUint32))
	histogram := message("HistogramDataPoint",
		scalar("start_time_unix_nano", 2, kindFixed64),
		scalar("time_unix_nano", 3, kindFixed64),
		scalar("count", 4, kindFixed64),
		scalar("sum", 5, kindDouble),
		list("bucket_counts", 6, kindFixed64),
		list("explicit_bounds", 7, kindDouble),
		many("exemplars", 8, exemplar),
		many("attributes", 9, keyValue),
		scalar("flags", 10, kindUint32),
		scalar("min", 11, kindDouble),
		scalar("max", 12, kindDouble))
	buckets := message("Buckets",
		scalar("offset", 1, kindSint32),
		list("bucket_counts", 2, kindUint64))
	exponential := message("ExponentialHistogramDataPoint",
		many("attributes", 1, keyValue),
		scalar("start_time_unix_nano", 2, kindFixed64),
		scalar("time_unix_nano", 3, kindFixed64),
		scalar("count", 4, kindFixed64),
		scalar("sum", 5, kindDouble),
		scalar("scale", 6, kindSint32),
		scalar("zero_count", 7, kindFixed64),
		one("positive", 8, buckets),
		one("negative", 9, buckets),
		scalar("flags", 10, kindUint32),
		many("exemplars", 11, exemplar),
		scalar("min", 12, kindDouble),
		scalar("max", 13, kindDouble),
		scalar("zero_threshold", 14, kindDouble))
	summary := message("SummaryDataPoint",
		scalar("start_time_unix_nano", 2, kindFixed64),
		scalar("time_unix_nano", 3, kindFixed64),
		scalar("count", 4, kindFixed64),
		scalar("sum", 5, kindDouble),
		many("quantile_values", 6, message("ValueAtQuantile",
			scalar("quantile", 1, kindDouble),
			scalar("value", 2, kindDouble))),
		many("attributes", 7, keyValue),
		scalar("flags", 8, kindUint32))
	temporality := enum("aggregation_temporality", 2, temporalities)
	return message("Metric",
		scalar("name", 1, kindString),
		scalar("description", 2, kindString),
		scalar("unit", 3, kindString),
		one("gauge", 5, message("Gauge", many("data_points", 1, number))),
		one("sum", 7, message("Sum", many("data_points", 1, number), temporality, scalar("is_monotonic", 3, kindBool))),
		one("histogram", 9, message("Histogram", many("data_points", 1, histogram), temporality)),
		one("exponential_histogram", 10, message("ExponentialHistogram", many("data_points", 1, exponential), temporality)),
		one("summary", 11, message("Summary", many("data_points", 1, summary))),
		many("metadata", 12, keyValue))
}
