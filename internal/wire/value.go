// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"math"
)

var (
	keyValueNames = names{0: "KeyValue", 1: "key", 2: "value", 3: "key_strindex"}
	anyValueNames = names{
		0: "AnyValue", 1: "string_value", 2: "bool_value", 3: "int_value", 4: "double_value",
		5: "array_value", 6: "kvlist_value", 7: "bytes_value", 8: "string_value_strindex",
	}
	arrayNames  = names{0: "ArrayValue", 1: "values"}
	kvlistNames = names{0: "KeyValueList", 1: "values"}
)

// KeyValue is an attribute with its decoded value.
type KeyValue struct {
	Key   []byte // field 1
	Value Value  // field 2; KindEmpty when absent
}

// Decode reads the attribute and its value from m.
//
// Attributes are most of a request. Nearly all have a key and a scalar value of less than 128 bytes each, in either
// order. Decode handles these itself. decode handles any attribute, at half the speed.
func (kv *KeyValue) Decode(m Message) error {
	b := m.Bytes
	n := len(b)
	if n < 6 || b[1] >= 0x80 {
		return kv.decode(m)
	}
	// The first field is b[2:i]; the second must end with the message.
	i := 2 + int(b[1])
	if i+2 > n || b[i+1] >= 0x80 || int(b[i+1]) != n-i-2 {
		return kv.decode(m)
	}
	key, value := b[2:i:i], b[i+2:n:n]
	switch {
	case b[0] == 1<<3|typeLen && b[i] == 2<<3|typeLen:
	case b[0] == 2<<3|typeLen && b[i] == 1<<3|typeLen:
		key, value = value, key
	default:
		return kv.decode(m)
	}
	if len(value) < 2 {
		return kv.decode(m)
	}
	x := value[1]
	switch value[0] {
	case 1<<3 | typeLen:
		if int(x) != len(value)-2 {
			return kv.decode(m)
		}
		*kv = KeyValue{}
		kv.Value.Kind, kv.Value.Bytes = KindString, value[2:]
	case 2<<3 | typeVarint:
		if x >= 0x80 || len(value) != 2 {
			return kv.decode(m)
		}
		*kv = KeyValue{}
		kv.Value.Kind, kv.Value.Bool = KindBool, x != 0
	case 3<<3 | typeVarint:
		v, end := uvarint(value, 1)
		if end != len(value) {
			return kv.decode(m)
		}
		*kv = KeyValue{}
		kv.Value.Kind, kv.Value.Int = KindInt, int64(v)
	case 4<<3 | typeFixed64:
		if len(value) != 9 {
			return kv.decode(m)
		}
		*kv = KeyValue{}
		kv.Value.Kind, kv.Value.Double = KindDouble, math.Float64frombits(binary.LittleEndian.Uint64(value[1:]))
	default:
		return kv.decode(m)
	}
	kv.Key = key
	return nil
}

// decode is the slow path of Decode for any attribute.
func (kv *KeyValue) decode(m Message) error {
	*kv = KeyValue{}
	b := m.Bytes
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 1<<3 | typeLen:
			kv.Key = b[v:end:end]
		case 2<<3 | typeLen:
			// All fields of a value are members of one oneof, and the last one wins. Decoding one occurrence over the
			// other merges them.
			if err := kv.Value.merge(m.sub(v, end)); err != nil {
				return err
			}
		case 3<<3 | typeVarint: // an index into the dictionary of the profiles signal
		default:
			if err := m.fail(i, tag, keyValueNames); err != nil {
				return err
			}
		}
		i = end
	}
	return nil
}

// Value is a decoded AnyValue. Only the fields of its Kind are set.
type Value struct {
	Bytes  []byte   // KindString (not necessarily UTF-8) and KindBytes
	Int    int64    // KindInt
	Double float64  // KindDouble
	Items  Repeated // KindArray: decode with Value.Decode; KindKeyValues: decode with KeyValue.Decode
	Kind   ValueKind
	Bool   bool // KindBool
}

// Decode reads the value from m. Its fast path handles a single string of less than 128 bytes or a single small
// integer, the most common values.
func (v *Value) Decode(m Message) error {
	*v = Value{}
	switch b := m.Bytes; {
	case shortString(b):
		v.Kind, v.Bytes = KindString, b[2:]
		return nil
	case len(b) == 2 && b[0] == 3<<3|typeVarint && b[1] < 0x80:
		v.Kind, v.Int = KindInt, int64(b[1])
		return nil
	}
	return v.merge(m)
}

// merge reads the value from m into v. If m has no member, v is unchanged.
func (v *Value) merge(m Message) error {
	b := m.Bytes
	for i := 0; i < len(b); {
		tag, x, end := field(b, i)
		if v.Kind != KindEmpty && tag>>3 <= 8 {
			*v = Value{}
		}
		switch tag {
		case 1<<3 | typeLen:
			v.Kind = KindString
			v.Bytes = b[x:end:end]
		case 2<<3 | typeVarint:
			v.Kind = KindBool
			v.Bool = x != 0
		case 3<<3 | typeVarint:
			v.Kind = KindInt
			v.Int = int64(x)
		case 4<<3 | typeFixed64:
			v.Kind = KindDouble
			v.Double = math.Float64frombits(x)
		case 5<<3 | typeLen:
			v.Kind = KindArray
			if err := v.items(m.sub(x, end), arrayNames); err != nil {
				return err
			}
		case 6<<3 | typeLen:
			v.Kind = KindKeyValues
			if err := v.items(m.sub(x, end), kvlistNames); err != nil {
				return err
			}
		case 7<<3 | typeLen:
			v.Kind = KindBytes
			v.Bytes = b[x:end:end]
		case 8<<3 | typeVarint: // an index into the dictionary of the profiles signal
		default:
			if err := m.fail(i, tag, anyValueNames); err != nil {
				return err
			}
		}
		i = end
	}
	return nil
}

// items reads an ArrayValue or KeyValueList, which have the same layout.
func (v *Value) items(m Message, n names) error {
	b := m.Bytes
	var values run
	for i := 0; i < len(b); {
		tag, _, end := field(b, i)
		switch tag {
		case 1<<3 | typeLen:
			values, end = values.extend(b, i, end)
		default:
			if err := m.fail(i, tag, n); err != nil {
				return err
			}
		}
		i = end
	}
	v.Items = values.repeated(m, 1)
	return nil
}
