// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// environment selects exporters by the OpenTelemetry environment variables. The exporters read all other
// settings themselves. Source:
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
type environment struct {
	getenv func(string) string
	warn   func(msg string, args ...any)
}

// The values of the OTEL_EXPORTER_OTLP_ variables for the protocol.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf" // the default
	protocolJSON = "http/json"
)

func (e *environment) spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	switch e.protocol("TRACES", protocolGRPC, protocolHTTP, protocolJSON) {
	case protocolGRPC:
		return otlptracegrpc.New(ctx)
	case protocolHTTP, protocolJSON: // the exporter selects the encoding itself
		return otlptracehttp.New(ctx)
	default:
		return nil, nil
	}
}

func (e *environment) metricExporter(ctx context.Context) (sdkmetric.Exporter, error) {
	switch e.protocol("METRICS", protocolGRPC, protocolHTTP) {
	case protocolGRPC:
		return otlpmetricgrpc.New(ctx)
	case protocolHTTP:
		return otlpmetrichttp.New(ctx)
	default:
		return nil, nil
	}
}

func (e *environment) logExporter(ctx context.Context) (sdklog.Exporter, error) {
	switch e.protocol("LOGS", protocolGRPC, protocolHTTP) {
	case protocolGRPC:
		return otlploggrpc.New(ctx)
	case protocolHTTP:
		return otlploghttp.New(ctx)
	default:
		return nil, nil
	}
}

// protocol returns the protocol that exports a signal, or "" if it is not exported.
func (e *environment) protocol(signal string, known ...string) string {
	if !e.exported(signal) {
		return ""
	}
	name, value := e.first("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	if value == "" {
		return protocolHTTP
	}
	for _, p := range known {
		if value == p {
			return p
		}
	}
	e.warn("a variable names a protocol that is not supported; "+protocolHTTP+" is used", "variable", name, "signal", strings.ToLower(signal))
	return protocolHTTP
}

// exported reports whether a signal is exported: if its exporter is OTLP, which is the default if an endpoint
// is set.
func (e *environment) exported(signal string) bool {
	if strings.EqualFold(e.get("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	name := "OTEL_" + signal + "_EXPORTER"
	value := e.get(name)
	if value == "" {
		_, endpoint := e.first("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
		return endpoint != ""
	}
	exported := false
	for exporter := range strings.SplitSeq(value, ",") {
		switch exporter = strings.TrimSpace(exporter); {
		case exporter == "otlp":
			exported = true
		case exporter == "none", exporter == "":
		case exporter == "prometheus" && signal == "METRICS": // always served at /metrics
		default:
			e.warn("a variable names an exporter that is not supported", "variable", name)
		}
	}
	return exported
}

func (e *environment) get(name string) string { return strings.TrimSpace(e.getenv(name)) }

// first returns the first non-empty variable.
func (e *environment) first(names ...string) (name, value string) {
	for _, name = range names {
		if value = e.get(name); value != "" {
			return name, value
		}
	}
	return "", ""
}
