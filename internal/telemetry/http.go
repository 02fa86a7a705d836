// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// httpInstruments measure HTTP according to the semantic conventions. Source:
// https://opentelemetry.io/docs/specs/semconv/http/http-metrics/
type httpInstruments struct {
	serverDuration metric.Float64Histogram
	serverActive   metric.Int64UpDownCounter
	clientDuration metric.Float64Histogram
}

func newHTTPInstruments(m *meter) httpInstruments {
	bounds := []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
	return httpInstruments{
		serverDuration: m.histogram(httpServerDuration, bounds...),
		serverActive:   m.upDownCounter(httpServerActive),
		clientDuration: m.histogram(httpClientDuration, bounds...),
	}
}

// requestMethod returns the attribute for a method, _OTHER for a non-standard one, and the method's name in
// span names.
func requestMethod(method string) (attribute.KeyValue, string) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return semconv.HTTPRequestMethodKey.String(method), method
	case "": // client requests
		return semconv.HTTPRequestMethodGet, http.MethodGet
	}
	return semconv.HTTPRequestMethodOther, "HTTP"
}

// protocolVersion returns an HTTP version as in the conventions, such as 1.1 and 2.
func protocolVersion(proto string) attribute.KeyValue {
	v := strings.TrimPrefix(proto, "HTTP/")
	if v != "1.0" {
		v = strings.TrimSuffix(v, ".0")
	}
	return semconv.NetworkProtocolVersion(v)
}

// maxPath is the maximum length of a recorded path in bytes.
const maxPath = 256

// cleanPath truncates a path and removes sensitive data, because clients choose it.
func cleanPath(path string) string { return clean("", path[:min(len(path), maxPath)]) }
