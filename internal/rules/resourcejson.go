// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"math"
	"strings"

	"assay/internal/rules/sensitive"
	"assay/internal/wire"
)

// maxAttributesJSON bounds the resource attributes that an insight shows.
const maxAttributesJSON = 4 << 10

// redacted stands where a value is not shown.
const redacted = "[redacted]"

// attributesJSON builds the JSON object of resource attributes for evidence:
// sensitive values replaced, long ones cut, attributes left out once it is full.
type attributesJSON struct {
	b    strings.Builder
	keys map[string]bool
}

func (d *attributesJSON) add(kv *wire.KeyValue) {
	key := shown(kv.Key)
	if d.keys[key] || d.b.Len() >= maxAttributesJSON {
		return
	}
	name, err := json.Marshal(key)
	if err != nil {
		return
	}
	value, err := json.Marshal(shownValue(kv.Key, &kv.Value))
	if err != nil {
		return
	}
	if d.b.Len()+len(name)+len(value)+3 > maxAttributesJSON { // a comma, a colon, the closing brace
		return
	}
	if d.keys == nil {
		d.keys = make(map[string]bool)
		d.b.WriteByte('{')
	} else {
		d.b.WriteByte(',')
	}
	d.keys[key] = true
	d.b.Write(name)
	d.b.WriteByte(':')
	d.b.Write(value)
}

// String returns the object.
func (d *attributesJSON) String() string {
	if d.keys == nil {
		return "{}"
	}
	return d.b.String() + "}"
}

// maxShownItems bounds the parts of an array or map that are shown.
const maxShownItems = 16

// shownValue returns a validated value as evidence shows it.
func shownValue(key []byte, v *wire.Value) any {
	switch v.Kind {
	case wire.KindString:
		b := v.Bytes
		if len(b) > maxAttributesJSON {
			b = b[:maxAttributesJSON]
		}
		// The name may be the reason, so the value is judged whole before it is cut.
		if sensitive.Named(key, v.Bytes) != sensitive.None && len(v.Bytes) > len(b) {
			return redacted
		}
		return truncate(sensitive.CleanNamed(key, b), 512)
	case wire.KindInt:
		if sensitive.Integer(key, v.Int) != sensitive.None {
			return redacted
		}
		return v.Int
	case wire.KindBool:
		return v.Bool
	case wire.KindDouble:
		if math.IsNaN(v.Double) || math.IsInf(v.Double, 0) {
			return nil
		}
		return v.Double
	case wire.KindArray:
		list := []any{}
		flag := false
		items := v.Items
		for m, ok := items.Next(); ok && len(list) < maxShownItems; m, ok = items.Next() {
			var item wire.Value
			if item.Decode(m) != nil {
				break
			}
			isText := item.Kind == wire.KindString
			if flag && isText && sensitive.FlagValue(item.Bytes) != sensitive.None {
				list = append(list, redacted)
			} else {
				list = append(list, shownValue(key, &item))
			}
			flag = isText && sensitive.Flag(item.Bytes)
		}
		return list
	case wire.KindKeyValues:
		object := map[string]any{}
		items := v.Items
		for m, ok := items.Next(); ok && len(object) < maxShownItems; m, ok = items.Next() {
			var item wire.KeyValue
			if item.Decode(m) != nil {
				break
			}
			object[shown(item.Key)] = shownValue(item.Key, &item.Value)
		}
		return object
	case wire.KindBytes:
		return "[bytes]"
	default:
		return nil
	}
}
