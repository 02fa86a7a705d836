// SPDX-License-Identifier: Apache-2.0

// Package oidc signs users in at an OpenID Connect provider by the authorization code flow with PKCE, and reads the
// user from the ID token.
//
// Package auth provides the endpoints and keys of the provider. This package makes the remaining two requests, one of
// them through the browser. It implements them itself instead of using a library, so that each response has size
// limits and each failure has an error code.
package oidc
