// SPDX-License-Identifier: Apache-2.0

// Package auth authenticates requests by API keys and by tokens of an OpenID Connect provider.
//
// An API key is `<prefix>_sk_<id>_<secret>`. The six characters of the id are public and select the stored key. Only a
// SHA-256 of the whole key is stored. SHA-256 without salt or stretching is sufficient because the secret is 128
// random bits and not a password.
//
// The public keys of the provider are fetched in the background. A request waits for the provider only if its token
// names a key that is not known yet.
//
// The failures of each address are limited. Valid credentials are never limited.
package auth
