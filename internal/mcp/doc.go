// SPDX-License-Identifier: Apache-2.0

// Package mcp serves assay to coding agents over the Model Context Protocol.
//
// Tools that need a server call its REST API with the credential of the caller (api.go). So the scopes, limits,
// response formats and the isolation of organizations are those of the API. Tools for local files (local.go) exist only
// in `assay mcp`, which runs with the permissions of its user. All tools are read-only.
package mcp
