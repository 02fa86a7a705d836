// SPDX-License-Identifier: Apache-2.0

// Package tlsreload serves TLS with a certificate that is reloaded when its files change. The files are read every
// few seconds, and new connections use the new certificate. An invalid pair, such as a half-written one, is ignored.
// ReadRoots reads the certificates of authorities once.
package tlsreload
