// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay"
	"assay/internal/rules/catalog"
)

// Stored numbers of the statuses of insights.
const (
	StatusActive   = 1
	StatusArchived = 2
	StatusMuted    = 3
)

// StatusNumber returns the stored number of a status, 0 for an unknown one.
func StatusNumber(s assay.InsightStatus) int64 {
	switch s {
	case assay.InsightActive:
		return StatusActive
	case assay.InsightArchived:
		return StatusArchived
	case assay.InsightMuted:
		return StatusMuted
	default:
		return 0
	}
}

// InsightStatus is the inverse of StatusNumber.
func InsightStatus(n int64) (assay.InsightStatus, error) {
	switch n {
	case StatusActive:
		return assay.InsightActive, nil
	case StatusArchived:
		return assay.InsightArchived, nil
	case StatusMuted:
		return assay.InsightMuted, nil
	default:
		return "", fmt.Errorf("insight with status %d", n)
	}
}

// SignalNumber returns the stored number of a signal, 0 for an unknown one. Numbers are
// in the order of the signals' names.
func SignalNumber(s assay.Signal) int64 {
	switch s {
	case assay.SignalLog:
		return 1
	case assay.SignalMetric:
		return 2
	case assay.SignalTrace:
		return 3
	default:
		return 0
	}
}

// Insight holds the encoded fields of an insight.
type Insight struct {
	Rule, Status, Weight, Signal int64
	Attributes                   string
}

// EncodeInsight encodes an insight. Weight and signal follow from its rule.
func EncodeInsight(in *assay.Insight) (Insight, error) {
	rule, ok := catalog.ByInsightType(in.Type)
	if !ok {
		return Insight{}, fmt.Errorf("unknown insight type %q", in.Type)
	}
	status := StatusNumber(in.Status)
	if status == 0 {
		return Insight{}, fmt.Errorf("unknown status %q", string(in.Status))
	}
	attributes, err := EncodeAttributes(in.Attributes)
	if err != nil {
		return Insight{}, err
	}
	info := rule.Info()
	return Insight{int64(RuleNumber(rule)), status, int64(info.Impact.Weight()), SignalNumber(info.Signal), string(attributes)}, nil
}

// EncodeAttributes writes attributes as JSON. Numbers keep their kind: a float has a
// point or an exponent.
func EncodeAttributes(attributes map[string]any) ([]byte, error) {
	out := make(map[string]any, len(attributes))
	for k, v := range attributes {
		switch x := reflect.ValueOf(v); x.Kind() {
		case reflect.Float32, reflect.Float64:
			text := strconv.FormatFloat(x.Float(), 'g', -1, 64)
			if !strings.ContainsAny(text, ".eIN") {
				text += ".0"
			}
			out[k] = json.Number(text)
		case reflect.String, reflect.Bool,
			reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
			reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			out[k] = v
		default:
			return nil, fmt.Errorf("attribute %q is a %T, not a string, integer, number or boolean", k, v)
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return nil, fmt.Errorf("encode attributes: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// DecodeAttributes is the inverse of EncodeAttributes. Values are strings, int64 (uint64
// if it does not fit), float64 and booleans.
func DecodeAttributes(b []byte) (map[string]any, error) {
	if attributes, ok := decodePlain(string(b)); ok {
		return attributes, nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var attributes map[string]any
	if err := dec.Decode(&attributes); err != nil {
		return nil, fmt.Errorf("decode attributes: %w", err)
	}
	for k, v := range attributes {
		n, ok := v.(json.Number)
		if !ok {
			continue
		}
		if attributes[k], ok = number(n.String()); !ok {
			return nil, fmt.Errorf("decode attributes: number %s is out of range", n)
		}
	}
	return attributes, nil
}

// decodePlain decodes attributes in the form that EncodeAttributes writes, much faster
// than encoding/json. It reports whether they have that form.
func decodePlain(s string) (map[string]any, bool) {
	s, ok := strings.CutPrefix(s, "{")
	if !ok || !utf8.ValidString(s) {
		return nil, false
	}
	attributes := make(map[string]any, 8)
	for s != "}" {
		var key string
		if key, s, ok = cutText(s); !ok {
			return nil, false
		}
		if s, ok = strings.CutPrefix(s, ":"); !ok {
			return nil, false
		}
		var value any
		if strings.HasPrefix(s, `"`) {
			value, s, ok = cutText(s)
		} else {
			end := strings.IndexAny(s, ",}")
			if end < 0 {
				return nil, false
			}
			switch text := s[:end]; text {
			case "true", "false":
				value = text == "true"
			default:
				if text == "" || strings.Trim(text, "0123456789+-.eE") != "" {
					return nil, false
				}
				value, ok = number(text)
			}
			s = s[end:]
		}
		if !ok {
			return nil, false
		}
		attributes[key] = value
		if s, ok = strings.CutPrefix(s, ","); !ok && s != "}" {
			return nil, false
		}
	}
	return attributes, true
}

// cutText returns the JSON string at the start of s and the rest of s.
func cutText(s string) (text, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	s = s[1:]
	var b []byte // the unescaped prefix
	for {
		i := strings.IndexAny(s, `"\\`)
		switch {
		case i < 0 || s[i:] == `\`:
			return "", "", false
		case s[i] == '"' && b == nil:
			return s[:i], s[i+1:], true
		case s[i] == '"':
			return string(append(b, s[:i]...)), s[i+1:], true
		}
		if b == nil {
			b = make([]byte, 0, 2*i+256)
		}
		b = append(b, s[:i]...)
		if s[i+1] == '"' || s[i+1] == '\\' { // the most common escapes
			b, s = append(b, s[i+1]), s[i+2:]
			continue
		}
		// Go's escapes include JSON's, except two that encoding/json does not write.
		r, _, after, err := strconv.UnquoteChar(s[i:], '"')
		if err != nil {
			return "", "", false
		}
		b, s = utf8.AppendRune(b, r), after
	}
}

// number returns a number in its original kind.
func number(text string) (any, bool) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, true
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u, true
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}
