// SPDX-License-Identifier: Apache-2.0

// Package sign makes the tokens by which the agent backend knows whose request
// assay forwards, and publishes the keys that they are checked with.
//
// A token is a JWT that is signed with Ed25519 (EdDSA, RFC 8037), lives for a minute
// and is made for one request. The key is made on first start and shared by all
// replicas through the store. No request fails while it is rotated, because every
// replica publishes the new key before any signs with it, and the old one for as long as
// its tokens can live:
//
//	   0 s  the new key is stored
//	 0-2 s  each replica reads it, once a second and in a second at most, and publishes it
//	 5-8 s  the last verifier knows it that keeps the JWKS for its max-age, 5 s
//	8-10 s  each replica signs with it, 8 s after it first saw it
//	 300 s  the old key is deleted; its last token ended at 70 s, at 130 s for a
//	        verifier with a minute of leeway
//
// A verifier that looks again for a key that it does not know may keep the JWKS for
// as long as it likes.
//
// Each replica counts the eight seconds on its own clock, so clocks that differ do no
// harm. A replica that starts meanwhile cannot know how long the others have published a
// key: it takes one that is over a minute old by the clocks for known to all. So the
// clocks of replicas may differ by two minutes.
//
// A replica that cannot reach the store goes on with the keys it knows.
//
// The same keys sign short texts that browsers keep for the server (SignText).
//
// At rest the private halves can be encrypted with a secret that is not in the store.
package sign
