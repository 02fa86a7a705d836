// SPDX-License-Identifier: Apache-2.0

// Package deploy holds deployment configuration: Collector configurations, manifests, alerts and a dashboard.
// It has no code. Its tests check the configuration against the program.
package deploy
