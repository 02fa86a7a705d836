// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"assay"
)

// Statuses of insights as stored.
const (
	StatusActive   = 1
	StatusArchived = 2
	StatusMuted    = 3
)

// StatusNumber returns the number under which a status is stored, 0 for an unknown
// one.
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

// SignalNumber returns the number under which a signal is stored, 0 for an unknown
// one. Numbers are in the order of the signals' names.
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

// SeverityNumber returns the number under which the log records of a severity are
// counted: the smallest of its range, which the OpenTelemetry specification gave it
// for good, and 0 for unspecified.
func SeverityNumber(s assay.Severity) int64 {
	if s == assay.SeverityUnspecified {
		return 0
	}
	return 1 + 4*int64(s)
}

// EncodeAttributes writes attributes as JSON in which numbers keep their kind:
// a float has a point or an exponent.
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

// DecodeAttributes is the inverse of EncodeAttributes: strings, int64 (uint64
// where it does not fit), float64 and booleans.
func DecodeAttributes(b []byte) (map[string]any, error) {
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
		if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
			attributes[k] = i
		} else if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
			attributes[k] = u
		} else if f, err := n.Float64(); err == nil {
			attributes[k] = f
		} else {
			return nil, fmt.Errorf("decode attributes: %w", err)
		}
	}
	return attributes, nil
}
