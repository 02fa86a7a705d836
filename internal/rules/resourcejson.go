// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"math"
	"unicode/utf8"

	"assay/internal/rules/sensitive"
	"assay/internal/wire"
)

// maxAttributesJSON limits the resource attributes that an insight shows, in bytes.
const maxAttributesJSON = 4 << 10

// redacted replaces a sensitive value.
const redacted = "[redacted]"

// attributesJSON builds the JSON object of resource attributes for evidence. It replaces
// sensitive values, cuts long ones, and leaves attributes out once the object is full.
type attributesJSON struct {
	b       []byte // without the closing brace; empty: no attribute
	keys    map[string]bool
	leftOut int
}

// maxLeftOut is the number of attributes that do not fit before the object counts as
// full.
const maxLeftOut = 64

// maxShownText limits a shown text, in bytes.
const maxShownText = 512

func (d *attributesJSON) reset() {
	const keep = 64
	if d.b, d.leftOut = d.b[:0], 0; len(d.keys) > keep {
		d.keys = make(map[string]bool)
	}
	clear(d.keys)
}

// add adds an attribute with the verdict v.
func (d *attributesJSON) add(e *Evaluator, kv *wire.KeyValue, v verdict) {
	if len(d.b) >= maxAttributesJSON || d.leftOut == maxLeftOut {
		return
	}
	key := e.shown(kv.Key)
	if d.keys[key] {
		return
	}
	d.leftOut++
	e.steps += stepsPerShown
	between := byte(',')
	if len(d.b) == 0 {
		between = '{'
	}
	b, err := appendText(append(d.b, between), key)
	if err != nil {
		return
	}
	b = append(b, ':')
	if value := kv.Value.Bytes; v&sensitiveData == 0 && kv.Value.Kind == wire.KindString && len(value) <= maxShownText && utf8.Valid(value) {
		b, err = appendText(b, string(value))
	} else {
		x := shownValues{e: e, left: maxAttributesJSON / 2} // each takes at least two bytes
		shown := x.value(e.meter.UnderKey(kv.Key), &kv.Value)
		if x.left < 0 {
			return
		}
		var text []byte
		text, err = json.Marshal(shown)
		e.steps += uint64(len(text)) / bytesPerStep
		b = append(b, text...)
	}
	if err != nil || len(b)+1 > maxAttributesJSON { // including the closing brace
		return
	}
	d.leftOut--
	d.keys[key], d.b = true, b
}

// appendText appends a JSON string to dst. Most texts need no escapes.
func appendText(dst []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			b, err := json.Marshal(s)
			return append(dst, b...), err
		}
	}
	return append(append(append(dst, '"'), s...), '"'), nil
}

// String returns the object.
func (d *attributesJSON) String() string {
	if len(d.b) == 0 {
		return "{}"
	}
	return string(d.b) + "}"
}

// maxShownItems limits the parts of an array or map that are shown.
const maxShownItems = 16

// shownValues converts values to the form of evidence.
type shownValues struct {
	e    *Evaluator
	left int // values that may still be shown; negative: the result is too large, or the request has to end
}

// value returns a validated value in the form of evidence. It redacts more than the
// detector finds: everything nested under the name of a secret, or after a flag of such a
// name, and doubles that are card numbers.
func (x *shownValues) value(under sensitive.Under, v *wire.Value) any {
	if x.left--; x.left < 0 {
		return nil
	}
	if x.e.spend(stepsPerShown) != nil {
		x.left = -1
		return nil
	}
	switch v.Kind {
	case wire.KindString:
		b := v.Bytes
		// Check the whole value before cutting it, and with its name, which may be the reason.
		if len(b) > maxAttributesJSON {
			if x.e.spendMiss(len(b)) != nil || under.Text(b) != sensitive.None || !x.e.complete() {
				return redacted
			}
			b = b[:maxAttributesJSON]
		}
		return truncate(under.Clean(b), maxShownText)
	case wire.KindInt:
		if under.Secret() || under.Integer(v.Int) != sensitive.None {
			return redacted
		}
		return v.Int
	case wire.KindBool:
		if under.Secret() {
			return redacted
		}
		return v.Bool
	case wire.KindDouble:
		switch whole := math.Trunc(v.Double); { // doubles are no findings, but may be the same numbers
		case under.Secret() || math.Abs(whole) < 1<<63 && under.Integer(int64(whole)) != sensitive.None:
			return redacted
		case math.IsNaN(v.Double) || math.IsInf(v.Double, 0):
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
			if flag && (!isText || x.e.meter.FlagValue(item.Bytes) != sensitive.None) {
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
			x.e.steps += stepsPerShownKey
			object[x.e.shown(item.Key)] = x.value(x.e.meter.UnderKey(item.Key).In(under), &item.Value)
		}
		return object
	case wire.KindBytes:
		return "[bytes]"
	default:
		return nil
	}
}
