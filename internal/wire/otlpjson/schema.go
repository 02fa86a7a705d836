// SPDX-License-Identifier: Apache-2.0

package otlpjson

import (
	"strings"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/reflect/protoreflect"

	"assay/internal/wire"
)

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
	kind     protoreflect.Kind
	repeated bool
	message  *schema          // for MessageKind
	enum     map[string]int32 // for EnumKind
}

// The kinds of the two id types, whose fields are bytes.
const (
	traceIDKind protoreflect.Kind = 100 + iota
	spanIDKind
)

var idKinds = map[protoreflect.Name]protoreflect.Kind{"trace_id": traceIDKind, "span_id": spanIDKind, "parent_span_id": spanIDKind}

// The schemas of the three requests.
var requests = func() map[wire.Signal]*schema {
	known := make(map[protoreflect.FullName]*schema)
	return map[wire.Signal]*schema{
		wire.Traces:  schemaOf(coltracepb.File_opentelemetry_proto_collector_trace_v1_trace_service_proto.Messages().ByName("ExportTraceServiceRequest"), known),
		wire.Metrics: schemaOf(colmetricspb.File_opentelemetry_proto_collector_metrics_v1_metrics_service_proto.Messages().ByName("ExportMetricsServiceRequest"), known),
		wire.Logs:    schemaOf(collogspb.File_opentelemetry_proto_collector_logs_v1_logs_service_proto.Messages().ByName("ExportLogsServiceRequest"), known),
	}
}()

// schemaOf converts a descriptor. A field stands under its camelCase and its snake_case name.
func schemaOf(d protoreflect.MessageDescriptor, known map[protoreflect.FullName]*schema) *schema {
	if s := known[d.FullName()]; s != nil {
		return s
	}
	name := string(d.FullName())
	s := &schema{
		name:   name[strings.LastIndex(name, ".v1.")+len(".v1."):],
		nested: d.Name() == "ArrayValue" || d.Name() == "KeyValueList",
		fields: make(map[string]*field, 2*d.Fields().Len()),
	}
	known[d.FullName()] = s
	for i := range d.Fields().Len() {
		p := d.Fields().Get(i)
		f := &field{name: p.JSONName(), number: uint8(p.Number()), kind: p.Kind(), repeated: p.IsList()}
		if id := idKinds[p.Name()]; id != 0 {
			f.kind = id
		}
		switch f.kind {
		case protoreflect.MessageKind:
			f.message = schemaOf(p.Message(), known)
		case protoreflect.EnumKind:
			f.enum = make(map[string]int32)
			for j := range p.Enum().Values().Len() {
				v := p.Enum().Values().Get(j)
				f.enum[string(v.Name())] = int32(v.Number())
			}
		}
		s.fields[string(p.Name())], s.fields[f.name] = f, f
	}
	return s
}
