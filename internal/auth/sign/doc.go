// SPDX-License-Identifier: Apache-2.0

// Package sign signs the tokens by which the agent backend authenticates forwarded requests, and publishes the public
// keys as a JWKS.
//
// A token is a JWT that is signed with Ed25519 (EdDSA, RFC 8037), is valid for a minute and is issued for one request.
// The signing key is generated on first start. All replicas share it through the store. A key rotation fails no
// request: every replica publishes the new key before any replica signs with it, and the old key until its tokens have
// expired:
//
//	   0 s  the new key is stored
//	 0-2 s  each replica reads and publishes it: it polls every second, for at most a second
//	 5-8 s  the last verifier that caches the JWKS for its max-age, 5 s, has the new key
//	8-10 s  each replica signs with it, 8 s after the replica first read it
//	 300 s  the old key is deleted; its last token expired at 70 s, or at 130 s for a
//	        verifier with a leeway of a minute
//
// A verifier that fetches the JWKS again for an unknown key may cache it for any duration.
//
// Each replica measures the eight seconds on its own clock, so clock differences are harmless. A replica that starts
// during a rotation does not know how long the others have published a key. It treats a key as published everywhere if
// the key is more than a minute old. The clocks of replicas may therefore differ by two minutes.
//
// A replica that cannot reach the store continues with the keys that it has.
//
// SignText signs short texts, which browsers store for the server, with the same keys.
//
// The private keys in the store can be encrypted with a secret that is not in the store.
package sign
