// SPDX-License-Identifier: Apache-2.0

// Package deploy holds what runs assay: configurations of Collectors, manifests,
// alerts and a dashboard. It has no code; its test keeps them true to the program.
package deploy
