// SPDX-License-Identifier: Apache-2.0

package wire

// MaxBody is the size in bytes of the largest request that Request and Validate accept, the size limit of protobuf
// messages.
const MaxBody = 1<<31 - 1

var (
	requestNames  = names{0: "ExportServiceRequest", 1: "resource_entries"}
	resourceNames = names{0: "Resource", 1: "attributes", 2: "dropped_attributes_count", 3: "entity_refs"}
	entityNames   = names{0: "EntityRef", 1: "schema_url", 2: "type", 3: "id_keys", 4: "description_keys"}
	scopeNames    = names{0: "InstrumentationScope", 1: "name", 2: "version", 3: "attributes", 4: "dropped_attributes_count"}
	entryNames    = names{0: "ResourceEntry", 1: "resource", 2: "scopes", 3: "schema_url"}
	scopedNames   = names{0: "ScopeEntry", 1: "scope", 2: "records", 3: "schema_url"}
)

// Request returns the resource entries (field 1) of an ExportTraceServiceRequest, ExportMetricsServiceRequest or
// ExportLogsServiceRequest. The bytes do not tell which of the three it is. An empty body is a request without
// entries.
func Request(body []byte) (Repeated, error) {
	if len(body) > MaxBody {
		return Repeated{}, &Error{Field: requestNames[0], Reason: "request is larger than 2 GiB"}
	}
	m := Message{Bytes: body}
	var entries run
	fields := 0
	for i := 0; i < len(body); {
		tag, _, end := field(body, i)
		if fields++; fields > maxUnits {
			return Repeated{}, &Error{Field: requestNames[0], Reason: tooManyFields}
		}
		switch tag {
		case 1<<3 | typeLen:
			entries = entries.add(i, end)
		default:
			if err := m.fail(i, tag, requestNames); err != nil {
				return Repeated{}, err
			}
		}
		i = end
	}
	return entries.repeated(m, 1), nil
}

// ResourceEntry is a ResourceSpans, ResourceMetrics or ResourceLogs: a resource and its telemetry.
type ResourceEntry struct {
	Resource    Message // field 1; decode with Resource.Decode
	HasResource bool
	Scopes      Repeated // field 2; decode with ScopeEntry.Decode
	SchemaURL   []byte   // field 3
}

// Decode reads the entry from m.
func (e *ResourceEntry) Decode(m Message) error {
	*e = ResourceEntry{}
	b := m.Bytes
	var scopes run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 1<<3 | typeLen:
			if e.HasResource = e.Resource.merge(m.sub(v, end)); !e.HasResource {
				return m.reject(i, 1, entryNames, inPieces)
			}
		case 2<<3 | typeLen:
			scopes = scopes.add(i, end)
		case 3<<3 | typeLen:
			e.SchemaURL = b[v:end:end]
		default:
			if err := m.fail(i, tag, entryNames); err != nil {
				return err
			}
		}
		i = end
	}
	e.Scopes = scopes.repeated(m, 2)
	return nil
}

// Resource is the entity that produced the telemetry of a ResourceEntry.
type Resource struct {
	Attributes             Repeated // field 1; decode with KeyValue.Decode
	DroppedAttributesCount uint32   // field 2
	EntityRefs             Repeated // field 3; decode with EntityRef.Decode
}

// Decode reads the resource from m.
func (r *Resource) Decode(m Message) error {
	*r = Resource{}
	b := m.Bytes
	var attributes, entities run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 1<<3 | typeLen:
			attributes, end = attributes.extend(b, i, end)
		case 2<<3 | typeVarint:
			r.DroppedAttributesCount = uint32(v)
		case 3<<3 | typeLen:
			entities = entities.add(i, end)
		default:
			if err := m.fail(i, tag, resourceNames); err != nil {
				return err
			}
		}
		i = end
	}
	r.Attributes = attributes.repeated(m, 1)
	r.EntityRefs = entities.repeated(m, 3)
	return nil
}

// EntityRef names the attributes of a resource that identify and describe one entity.
type EntityRef struct {
	SchemaURL       []byte   // field 1
	Type            []byte   // field 2
	IDKeys          Repeated // field 3; each message is an attribute key
	DescriptionKeys Repeated // field 4; each message is an attribute key
}

// Decode reads the reference from m.
func (r *EntityRef) Decode(m Message) error {
	*r = EntityRef{}
	b := m.Bytes
	var ids, descriptions run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 1<<3 | typeLen:
			r.SchemaURL = b[v:end:end]
		case 2<<3 | typeLen:
			r.Type = b[v:end:end]
		case 3<<3 | typeLen:
			ids = ids.add(i, end)
		case 4<<3 | typeLen:
			descriptions = descriptions.add(i, end)
		default:
			if err := m.fail(i, tag, entityNames); err != nil {
				return err
			}
		}
		i = end
	}
	r.IDKeys = ids.repeated(m, 3)
	r.DescriptionKeys = descriptions.repeated(m, 4)
	return nil
}

// ScopeEntry is a ScopeSpans, ScopeMetrics or ScopeLogs: an instrumentation scope and its records.
type ScopeEntry struct {
	Scope     Message  // field 1; decode with Scope.Decode; empty when absent
	Records   Repeated // field 2; decode with Span.Decode, Metric.Decode or LogRecord.Decode
	SchemaURL []byte   // field 3
}

// Decode reads the entry from m.
func (e *ScopeEntry) Decode(m Message) error {
	*e = ScopeEntry{}
	b := m.Bytes
	var records run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 1<<3 | typeLen:
			if !e.Scope.merge(m.sub(v, end)) {
				return m.reject(i, 1, scopedNames, inPieces)
			}
		case 2<<3 | typeLen:
			records, end = records.extend(b, i, end)
		case 3<<3 | typeLen:
			e.SchemaURL = b[v:end:end]
		default:
			if err := m.fail(i, tag, scopedNames); err != nil {
				return err
			}
		}
		i = end
	}
	e.Records = records.repeated(m, 2)
	return nil
}

// Scope is the instrumentation scope of a ScopeEntry.
type Scope struct {
	Name                   []byte   // field 1
	Version                []byte   // field 2
	Attributes             Repeated // field 3; decode with KeyValue.Decode
	DroppedAttributesCount uint32   // field 4
}

// Decode reads the scope from m.
func (s *Scope) Decode(m Message) error {
	*s = Scope{}
	b := m.Bytes
	var attributes run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 1<<3 | typeLen:
			s.Name = b[v:end:end]
		case 2<<3 | typeLen:
			s.Version = b[v:end:end]
		case 3<<3 | typeLen:
			attributes, end = attributes.extend(b, i, end)
		case 4<<3 | typeVarint:
			s.DroppedAttributesCount = uint32(v)
		default:
			if err := m.fail(i, tag, scopeNames); err != nil {
				return err
			}
		}
		i = end
	}
	s.Attributes = attributes.repeated(m, 3)
	return nil
}

// id returns the trace or span id b[lo:hi], or nil if it is empty or all zeros. It returns false if the id is not
// empty and not size bytes long.
func id(b []byte, lo uint64, hi, size int) ([]byte, bool) {
	p := b[lo:hi:hi]
	if len(p) != size {
		return nil, len(p) == 0
	}
	for _, c := range p {
		if c != 0 {
			return p, true
		}
	}
	return nil, true
}

const (
	traceIDSize = 16
	spanIDSize  = 8

	badTraceID = "trace id is not 16 bytes long"
	badSpanID  = "span id is not 8 bytes long"
	inPieces   = "message in several pieces is too large"
)
