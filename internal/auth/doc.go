// SPDX-License-Identifier: Apache-2.0

// Package auth tells who makes a request.
//
// It makes and checks API keys: a key is `<prefix>_sk_<id>_<secret>`, the six
// characters of the id are public and find the stored key, and only a SHA-256 of
// the whole key is stored. SHA-256 without salt or stretching is enough here, because
// the secret is 128 random bits and not a password.
//
// It verifies the tokens of an OpenID Connect provider, whose public keys it
// fetches in the background: a request waits for the provider only where its token is of
// a key that nobody knows yet.
//
// It limits the failures of an address, and never what does not fail.
package auth
