// SPDX-License-Identifier: Apache-2.0

// Package oidc signs people in at an OpenID Connect provider: the authorization code
// flow with PKCE, and who the ID token says they are.
//
// Package auth knows the provider, its endpoints and its keys. What is left are two
// requests, one of which the browser makes; they are written out here rather than taken
// from a library, so that each answer has its limits and each failure its code.
package oidc
