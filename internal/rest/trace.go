// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// traceID returns the trace id of a request: the trace id of its span, which continues
// the trace of the W3C traceparent header. Without a span, it is the trace id of the
// header if the request has exactly one valid header, and else a new random id.
func traceID(r *http.Request) string {
	if span := trace.SpanContextFromContext(r.Context()); span.HasTraceID() {
		return span.TraceID().String()
	}
	if v := r.Header.Values("Traceparent"); len(v) == 1 {
		if id, ok := parseTraceparent(v[0]); ok {
			return id
		}
	}
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// parseTraceparent parses version, trace id, parent id and flags as W3C Trace Context
// level 1 requires: lower-case hexadecimal, no zero id, no version ff, and additional
// fields only in versions after 00.
func parseTraceparent(s string) (traceID string, ok bool) {
	const length = 2 + 1 + 32 + 1 + 16 + 1 + 2
	s = strings.Trim(s, " \t")
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return "", false
	}
	version, traceID, parentID, flags := s[:2], s[3:35], s[36:52], s[53:55]
	if strings.Trim(version+traceID+parentID+flags, "0123456789abcdef") != "" ||
		version == "ff" ||
		strings.Trim(traceID, "0") == "" || strings.Trim(parentID, "0") == "" {
		return "", false
	}
	if len(s) > length && (version == "00" || s[length] != '-') {
		return "", false
	}
	return traceID, true
}
