// SPDX-License-Identifier: Apache-2.0

package wire

var (
	spanNames = names{
		0: "Span", 1: "trace_id", 2: "span_id", 3: "trace_state", 4: "parent_span_id", 5: "name",
		6: "kind", 7: "start_time_unix_nano", 8: "end_time_unix_nano", 9: "attributes",
		10: "dropped_attributes_count", 11: "events", 12: "dropped_events_count", 13: "links",
		14: "dropped_links_count", 15: "status", 16: "flags",
	}
	statusNames = names{0: "Status", 2: "message", 3: "code"}
	eventNames  = names{0: "Span.Event", 1: "time_unix_nano", 2: "name", 3: "attributes", 4: "dropped_attributes_count"}
	linkNames   = names{
		0: "Span.Link", 1: "trace_id", 2: "span_id", 3: "trace_state", 4: "attributes",
		5: "dropped_attributes_count", 6: "flags",
	}
)

// Span is one span. Times are nanoseconds since the Unix epoch, zero when absent. Kind and StatusCode are OTLP enum
// numbers and may have values that OTLP does not define yet.
type Span struct {
	TraceID                []byte   // field 1; 16 bytes, or nil when absent or all zeros
	SpanID                 []byte   // field 2; 8 bytes, or nil when absent or all zeros
	ParentSpanID           []byte   // field 4; 8 bytes, or nil when absent or all zeros
	TraceState             []byte   // field 3
	Name                   []byte   // field 5
	StatusMessage          []byte   // field 15, status.message
	StartTimeUnixNano      uint64   // field 7
	EndTimeUnixNano        uint64   // field 8
	Kind                   int32    // field 6
	StatusCode             int32    // field 15, status.code
	Flags                  uint32   // field 16
	DroppedAttributesCount uint32   // field 10
	DroppedEventsCount     uint32   // field 12
	DroppedLinksCount      uint32   // field 14
	Attributes             Repeated // field 9; decode with KeyValue.Decode
	Events                 Repeated // field 11; decode with SpanEvent.Decode
	Links                  Repeated // field 13; decode with SpanLink.Decode
}

// Decode reads the span from m, with its status.
func (s *Span) Decode(m Message) error {
	*s = Span{}
	b := m.Bytes
	var attributes, events, links run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		var ok bool
		switch tag {
		case 1<<3 | typeLen:
			if s.TraceID, ok = id(b, v, end, traceIDSize); !ok {
				return m.reject(i, 1, spanNames, badTraceID)
			}
		case 2<<3 | typeLen:
			if s.SpanID, ok = id(b, v, end, spanIDSize); !ok {
				return m.reject(i, 2, spanNames, badSpanID)
			}
		case 3<<3 | typeLen:
			s.TraceState = b[v:end:end]
		case 4<<3 | typeLen:
			if s.ParentSpanID, ok = id(b, v, end, spanIDSize); !ok {
				return m.reject(i, 4, spanNames, badSpanID)
			}
		case 5<<3 | typeLen:
			s.Name = b[v:end:end]
		case 6<<3 | typeVarint:
			s.Kind = int32(v)
		case 7<<3 | typeFixed64:
			s.StartTimeUnixNano = v
		case 8<<3 | typeFixed64:
			s.EndTimeUnixNano = v
		case 9<<3 | typeLen:
			attributes, end = attributes.extend(b, i, end)
		case 10<<3 | typeVarint:
			s.DroppedAttributesCount = uint32(v)
		case 11<<3 | typeLen:
			events, end = events.extend(b, i, end)
		case 12<<3 | typeVarint:
			s.DroppedEventsCount = uint32(v)
		case 13<<3 | typeLen:
			links, end = links.extend(b, i, end)
		case 14<<3 | typeVarint:
			s.DroppedLinksCount = uint32(v)
		case 15<<3 | typeLen:
			if err := s.status(m.sub(v, end)); err != nil {
				return err
			}
		case 16<<3 | typeFixed32:
			s.Flags = uint32(v)
		default:
			if err := m.fail(i, tag, spanNames); err != nil {
				return err
			}
		}
		i = end
	}
	s.Attributes = attributes.repeated(m, 9)
	s.Events = events.repeated(m, 11)
	s.Links = links.repeated(m, 13)
	return nil
}

// status reads a Status. All its fields are scalars, so reading a second occurrence into s merges the two.
func (s *Span) status(m Message) error {
	b := m.Bytes
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 2<<3 | typeLen:
			s.StatusMessage = b[v:end:end]
		case 3<<3 | typeVarint:
			s.StatusCode = int32(v)
		default:
			if err := m.fail(i, tag, statusNames); err != nil {
				return err
			}
		}
		i = end
	}
	return nil
}

// SpanEvent is one event of a span.
type SpanEvent struct {
	Name                   []byte   // field 2
	TimeUnixNano           uint64   // field 1; nanoseconds since the Unix epoch
	DroppedAttributesCount uint32   // field 4
	Attributes             Repeated // field 3; decode with KeyValue.Decode
}

// Decode reads the event from m.
func (e *SpanEvent) Decode(m Message) error {
	*e = SpanEvent{}
	b := m.Bytes
	var attributes run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 1<<3 | typeFixed64:
			e.TimeUnixNano = v
		case 2<<3 | typeLen:
			e.Name = b[v:end:end]
		case 3<<3 | typeLen:
			attributes, end = attributes.extend(b, i, end)
		case 4<<3 | typeVarint:
			e.DroppedAttributesCount = uint32(v)
		default:
			if err := m.fail(i, tag, eventNames); err != nil {
				return err
			}
		}
		i = end
	}
	e.Attributes = attributes.repeated(m, 3)
	return nil
}

// SpanLink is a link from a span to another one.
type SpanLink struct {
	TraceID                []byte   // field 1; 16 bytes, or nil when absent or all zeros
	SpanID                 []byte   // field 2; 8 bytes, or nil when absent or all zeros
	TraceState             []byte   // field 3
	DroppedAttributesCount uint32   // field 5
	Flags                  uint32   // field 6
	Attributes             Repeated // field 4; decode with KeyValue.Decode
}

// Decode reads the link from m.
func (l *SpanLink) Decode(m Message) error {
	*l = SpanLink{}
	b := m.Bytes
	var attributes run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		var ok bool
		switch tag {
		case 1<<3 | typeLen:
			if l.TraceID, ok = id(b, v, end, traceIDSize); !ok {
				return m.reject(i, 1, linkNames, badTraceID)
			}
		case 2<<3 | typeLen:
			if l.SpanID, ok = id(b, v, end, spanIDSize); !ok {
				return m.reject(i, 2, linkNames, badSpanID)
			}
		case 3<<3 | typeLen:
			l.TraceState = b[v:end:end]
		case 4<<3 | typeLen:
			attributes, end = attributes.extend(b, i, end)
		case 5<<3 | typeVarint:
			l.DroppedAttributesCount = uint32(v)
		case 6<<3 | typeFixed32:
			l.Flags = uint32(v)
		default:
			if err := m.fail(i, tag, linkNames); err != nil {
				return err
			}
		}
		i = end
	}
	l.Attributes = attributes.repeated(m, 4)
	return nil
}
