// SPDX-License-Identifier: Apache-2.0

// Package webhook sends insights that become active or are archived to the targets of organizations, by the Standard
// Webhooks specification. The store's transactions write the outbox (assay.WebhookStore). Manager creates and tests
// webhooks. Worker delivers: at least once, in order for one webhook, with backoff, shared between replicas by leases.
//
// Targets are hostile. A request goes to public addresses only (package netguard), follows no redirect, has a deadline,
// and its response is read up to a bound and not stored.
package webhook
