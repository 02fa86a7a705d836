// SPDX-License-Identifier: Apache-2.0

// Command collector is an OpenTelemetry Collector with the components of the configurations in deploy. It
// validates them: collector validate --config FILE.
package main
