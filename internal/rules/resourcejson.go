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
	b       []byte // without the closing brace
	keys    map[string]bool
	leftOut int
}

// maxLeftOut is how many attributes do not fit before the object counts as full.
const maxLeftOut = 64

func (d *attributesJSON) add(e *Evaluator, kv *wire.KeyValue) {
	if len(d.b) >= maxAttributesJSON || d.leftOut == maxLeftOut {
		return
	}
	key := e.shown(kv.Key)
	if d.keys[key] {
		return
	}
	d.leftOut++
	e.steps += stepsPerShown
	x := shownValues{e: e, left: maxAttributesJSON / 2} // one takes two bytes at least
	shown := x.value(sensitive.UnderKey(kv.Key), &kv.Value)
	if x.left < 0 {
		return
	}
	between := byte('{')
	if d.keys != nil {
		between = ','
	}
	b, err := appendJSON(append(d.b, between), key)
	if err == nil {
		b, err = appendJSON(append(b, ':'), shown)
	}
	if err != nil || len(b)+1 > maxAttributesJSON { // with the closing brace
		return
	}
	d.leftOut--
	if d.keys == nil {
		d.keys = make(map[string]bool)
	}
	d.keys[key], d.b = true, b
}

// appendJSON appends v to dst. Most are texts that stand for themselves.
func appendJSON(dst []byte, v any) ([]byte, error) {
	if s, ok := v.(string); ok && !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' || r >= 0x7f || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&'
	}) {
		return append(append(append(dst, '"'), s...), '"'), nil
	}
	b, err := json.Marshal(v)
	return append(dst, b...), err
}

// String returns the object.
func (d *attributesJSON) String() string {
	if d.keys == nil {
		return "{}"
	}
	return string(d.b) + "}"
}

// maxShownItems bounds the parts of an array or map that are shown.
const maxShownItems = 16

// shownValues turns values into what evidence shows of them.
type shownValues struct {
	e    *Evaluator
	left int // values that may be shown; below 0 the result is too large
}

// value returns a validated value as evidence shows it.
func (x *shownValues) value(under sensitive.Under, v *wire.Value) any {
	if x.left--; x.left < 0 {
		return nil
	}
	switch v.Kind {
	case wire.KindString:
		b := v.Bytes
		// The name may be the reason, so the value is judged whole before it is cut.
		if len(b) > maxAttributesJSON {
			if x.e.spendMiss(len(b)) != nil || under.Text(b) != sensitive.None {
				return redacted
			}
			b = b[:maxAttributesJSON]
		}
		return truncate(under.Clean(b), 512)
	case wire.KindInt:
		if under.Integer(v.Int) != sensitive.None {
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
		for m, ok := items.Next(); ok && len(list) < maxShownItems && x.left >= 0; m, ok = items.Next() {
			var item wire.Value
			if item.Decode(m) != nil {
				break
			}
			isText := item.Kind == wire.KindString
			if flag && isText && sensitive.FlagValue(item.Bytes) != sensitive.None {
				list = append(list, redacted)
			} else {
				list = append(list, x.value(under, &item))
			}
			flag = isText && sensitive.Flag(item.Bytes)
		}
		return list
	case wire.KindKeyValues:
		object := map[string]any{}
		items := v.Items
		for m, ok := items.Next(); ok && len(object) < maxShownItems && x.left >= 0; m, ok = items.Next() {
			var item wire.KeyValue
			if item.Decode(m) != nil {
				break
			}
			object[x.e.shown(item.Key)] = x.value(sensitive.UnderKey(item.Key), &item.Value)
		}
		return object
	case wire.KindBytes:
		return "[bytes]"
	default:
		return nil
	}
}
