// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// httpInstruments measure HTTP as the semantic conventions say.
// Source: https://opentelemetry.io/docs/specs/semconv/http/http-metrics/
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

// requestMethod returns the attribute for a method, _OTHER for one that is not
// standard, and the name that a span has by it.
func requestMethod(method string) (attribute.KeyValue, string) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return semconv.HTTPRequestMethodKey.String(method), method
	case "": // of a client
		return semconv.HTTPRequestMethodGet, http.MethodGet
	}
	return semconv.HTTPRequestMethodOther, "HTTP"
}

// protocolVersion returns a version as the conventions have it, such as 1.1 and 2.
func protocolVersion(proto string) attribute.KeyValue {
	v := strings.TrimPrefix(proto, "HTTP/")
	if v != "1.0" {
		v = strings.TrimSuffix(v, ".0")
	}
	return semconv.NetworkProtocolVersion(v)
}

// maxPath is how many bytes of a path are shown.
const maxPath = 256

// cleanPath returns a path, cut and without what looks sensitive, for clients may
// put anything there.
func cleanPath(path string) string { return clean("", path[:min(len(path), maxPath)]) }
