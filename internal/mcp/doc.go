// SPDX-License-Identifier: Apache-2.0

// Package mcp serves assay to coding agents by the Model Context Protocol.
//
// Tools that need a server call its REST API with the caller's credential (api.go), so that scopes, the isolation of
// organizations, limits and shapes equal the API's. Tools for local files (local.go) exist only in `assay mcp`,
// which runs with the rights of its user. All tools only read.
package mcp
