// SPDX-License-Identifier: Apache-2.0

// Package lease lets any number of replicas work for one store without a protocol
// between them: leases in the store say who does what, and the store's clock what
// time it is.
package lease
