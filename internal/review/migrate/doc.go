// SPDX-License-Identifier: Apache-2.0

// Package migrate moves code and manifests from OpenTracing, OpenCensus, the Jaeger and Zipkin clients and the Datadog
// tracer to OpenTelemetry. Tables have the replacement of each symbol. A unit, which is a Go module, an npm package, a
// Python project or a build of Java, is migrated as a whole: if it uses a symbol that is in no table, its files stay as
// they are and steps name the places.
package migrate
