// SPDX-License-Identifier: Apache-2.0

// Package oidctest provides a certified OpenID Connect provider on loopback for tests. Tests can change its signing
// keys and the claims of its users.
package oidctest
