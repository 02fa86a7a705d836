// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the complete data path over real sockets and with a store on disk: recordings against the
// offline report, and the built program as operators, senders, clients and attackers use it. With
// ASSAY_E2E_LONG in the environment, longer variants run as well.
package e2e
