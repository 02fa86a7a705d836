// SPDX-License-Identifier: Apache-2.0

// Package migrate moves code and manifests from OpenTracing, OpenCensus, the Jaeger and Zipkin clients and the Datadog
// tracer to OpenTelemetry. Tables hold the replacement of each symbol. A unit is a Go module, an npm package, a Python
// project or a Java build, and is migrated as a whole: if it uses a symbol that is in no table, its files stay
// unchanged and steps report the locations.
package migrate
