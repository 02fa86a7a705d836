// SPDX-License-Identifier: Apache-2.0

// Package instrument adds OpenTelemetry to the services of a repository: dependencies, the setup of the SDK or of automatic
// instrumentation, the variables that name a service where it is deployed, and, for the kind general, instrumentation of
// servers, consumers and clients in the code.
package instrument
