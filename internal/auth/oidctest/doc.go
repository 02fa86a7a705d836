// SPDX-License-Identifier: Apache-2.0

// Package oidctest is a certified OpenID Connect provider on loopback, for tests, with
// users whose claims, and signing keys that can be changed.
package oidctest
