// SPDX-License-Identifier: Apache-2.0

// Package e2e holds tests of the whole way of the data, over real sockets and on
// a store on disk: recordings against the offline report, and the built program as
// operators, senders, clients and attackers see it. With ASSAY_E2E_LONG in the
// environment, variants that take longer run too.
package e2e
