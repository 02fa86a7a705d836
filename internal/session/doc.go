// SPDX-License-Identifier: Apache-2.0

// Package session signs people in to the dashboard and keeps them signed in.
//
// Somebody signs in by pasting an API key of scope read once, or at an OpenID
// Connect provider by the authorization code flow with PKCE. Either way the browser
// gets a new opaque token of 32 random bytes in a cookie and the store its SHA-256;
// the key, and the tokens of the provider, are kept nowhere. A session ends when it is
// not used for a while, when its time is over, on signing out, and with its API key.
//
// The paths that belong to this package:
//
//	GET  /sign-in           the page, by Config.Page
//	POST /sign-in           form fields key and return
//	GET  /sign-in/provider  goes to the identity provider; query parameter return
//	GET  /sign-in/callback  comes back from it
//	POST /sign-out          ends this session
//	POST /sign-out/all      ends all sessions of who is signed in
//
// Everything else is passed on; pages find who is signed in by FromContext.
//
// Requests of other origins that change something are refused by
// http.CrossOriginProtection; a GET changes nothing. Requests that a page makes of its
// own, such as polling, carry the header Assay-Live and do not keep an idle session
// alive.
//
// A callback of a provider costs a request to it with the client's secret before it is
// known to be good, so the failures of an address are counted beside those of keys, and
// only so many codes are exchanged at a time.
package session
