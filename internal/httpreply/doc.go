// SPDX-License-Identifier: Apache-2.0

// Package httpreply writes HTTP responses whose bodies are in memory: with a Content-Length, by which package connlimit
// counts those that a client does not read, compressed if the client accepts it, or not at all if the client has them.
package httpreply
