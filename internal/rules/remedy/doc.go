// SPDX-License-Identifier: Apache-2.0

// Package remedy fits the remediation text of an insight type to one insight: the code in
// the language of the telemetry comes first, OTEL_RESOURCE_ATTRIBUTES is complete for the
// service, the keys that were found are named, and each kind of sensitive data that was
// found has a mask.
package remedy
