// SPDX-License-Identifier: Apache-2.0

// Package gittest serves real git repositories over TLS on loopback, for tests. Gitea adds the API of a source host.
package gittest
