// SPDX-License-Identifier: Apache-2.0

// Package session signs users in to the dashboard and manages their sessions.
//
// A user signs in with an API key of scope read, or at an OpenID Connect provider by the authorization code flow with
// PKCE. In both cases the browser gets a new opaque token of 32 random bytes in a cookie, and the store keeps the
// SHA-256 of the token. Neither the API key nor the tokens of the provider are stored. A session ends when it is idle
// for too long, when its lifetime is over, when the user signs out, and when its API key is revoked or expires.
//
// The package serves these paths:
//
//	GET  /sign-in           the page, by Config.Page
//	POST /sign-in           form fields key and return
//	GET  /sign-in/provider  redirects to the identity provider; query parameter return
//	GET  /sign-in/callback  receives the redirect from the provider
//	POST /sign-out          ends this session
//	POST /sign-out/all      ends all sessions of the user
//
// It passes all other requests on. Pages get the session from FromContext.
//
// http.CrossOriginProtection refuses cross-origin requests with an unsafe method; GET requests change nothing.
// Requests that a page sends without user action, such as polling, carry the header Assay-Live and do not extend an
// idle session.
//
// A callback causes a request to the provider, with the client's secret, before its code is known to be valid. The
// package therefore counts the failures of each address separately from failures of API keys, and limits the number of
// concurrent exchanges.
package session
