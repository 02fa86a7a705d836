// SPDX-License-Identifier: Apache-2.0

package wire

var logNames = names{
	0: "LogRecord", 1: "time_unix_nano", 2: "severity_number", 3: "severity_text", 5: "body", 6: "attributes",
	7: "dropped_attributes_count", 8: "flags", 9: "trace_id", 10: "span_id", 11: "observed_time_unix_nano", 12: "event_name",
}

// LogRecord is one log record. Times are nanoseconds since the Unix epoch, zero when absent.
type LogRecord struct {
	TimeUnixNano           uint64  // field 1
	ObservedTimeUnixNano   uint64  // field 11
	SeverityText           []byte  // field 3
	TraceID                []byte  // field 9; 16 bytes, or nil when absent or all zeros
	SpanID                 []byte  // field 10; 8 bytes, or nil when absent or all zeros
	EventName              []byte  // field 12
	Body                   Message // field 5; decode with Value.Decode
	HasBody                bool
	SeverityNumber         int32    // field 2; 1 to 24, 0 when absent, or a value not defined by OTLP yet
	DroppedAttributesCount uint32   // field 7
	Flags                  uint32   // field 8
	Attributes             Repeated // field 6; decode with KeyValue.Decode
}

// Decode reads the record from m.
func (l *LogRecord) Decode(m Message) error {
	*l = LogRecord{}
	b := m.Bytes
	var attributes run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		var ok bool
		switch tag {
		case 1<<3 | typeFixed64:
			l.TimeUnixNano = v
		case 2<<3 | typeVarint:
			l.SeverityNumber = int32(v)
		case 3<<3 | typeLen:
			l.SeverityText = b[v:end:end]
		case 5<<3 | typeLen:
			if l.HasBody = l.Body.merge(m.sub(v, end)); !l.HasBody {
				return m.reject(i, 5, logNames, inPieces)
			}
		case 6<<3 | typeLen:
			attributes, end = attributes.extend(b, i, end)
		case 7<<3 | typeVarint:
			l.DroppedAttributesCount = uint32(v)
		case 8<<3 | typeFixed32:
			l.Flags = uint32(v)
		case 9<<3 | typeLen:
			if l.TraceID, ok = id(b, v, end, traceIDSize); !ok {
				return m.reject(i, 9, logNames, badTraceID)
			}
		case 10<<3 | typeLen:
			if l.SpanID, ok = id(b, v, end, spanIDSize); !ok {
				return m.reject(i, 10, logNames, badSpanID)
			}
		case 11<<3 | typeFixed64:
			l.ObservedTimeUnixNano = v
		case 12<<3 | typeLen:
			l.EventName = b[v:end:end]
		default:
			if err := m.fail(i, tag, logNames); err != nil {
				return err
			}
		}
		i = end
	}
	l.Attributes = attributes.repeated(m, 6)
	return nil
}
