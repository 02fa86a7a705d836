// SPDX-License-Identifier: Apache-2.0

// Package instrument adds OpenTelemetry to the services of a repository: dependencies, the setup of the SDK or of
// automatic instrumentation, and the variables of deployment files that name the service. The kind general also adds
// instrumentation of servers, consumers and clients to the code.
package instrument
