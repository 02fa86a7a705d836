// SPDX-License-Identifier: Apache-2.0

// Command collector is an OpenTelemetry Collector with the components that the
// configurations beside it use. It checks them: collector validate --config FILE.
package main
